"""Settings in a file beside the process."""

from pathlib import Path

from bot.settings import env_file


def test_file_is_readable_by_its_owner_alone_and_keeps_other_lines(tmp_path: Path) -> None:
    """Secrets are added; a comment and other variables stay, an older value goes."""
    path = tmp_path / ".env"
    path.write_text("# ours\nPORT=8081\nIMQ_A=old\nexport IMQ_B = older\n")
    path.chmod(0o644)
    env_file.write(path, {"IMQ_A": "1", "IMQ_B": "2", "IMQ_C": "x=="})
    assert path.read_text() == "# ours\nPORT=8081\nIMQ_A=1\nIMQ_B=2\nIMQ_C=x==\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == [".env"]


def test_file_that_is_missing_is_made(tmp_path: Path) -> None:
    """A first registration has none."""
    path = tmp_path / ".env"
    assert (env_file.read(path), env_file.conflicts(path, ["IMQ_A"])) == ({}, [])
    env_file.write(path, {"IMQ_A": "1"})
    assert env_file.read(path) == {"IMQ_A": "1"}
    assert path.stat().st_mode & 0o777 == 0o600


def test_values_that_are_there_already_are_named(tmp_path: Path) -> None:
    """An empty line counts as not set."""
    path = tmp_path / ".env"
    path.write_text("IMQ_A=\nIMQ_B='b'\n")
    assert env_file.conflicts(path, ["IMQ_A", "IMQ_B", "IMQ_C"]) == ["IMQ_B"]


def test_environment_counts_more_than_the_file(tmp_path: Path) -> None:
    """What a platform sets is not changed by a file; nothing in the file is expanded."""
    path = tmp_path / ".env"
    path.write_text("PORT=1\nIMQ_A=${HOME}\nIMQ_B=b\n")
    assert env_file.environment({"PORT": "2", "IMQ_B": " ", "OTHER": ""}, path) == {
        "PORT": "2",
        "IMQ_A": "${HOME}",
        "IMQ_B": "b",
        "OTHER": "",
    }
