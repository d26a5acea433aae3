"""The file of logins: only its owner reads it, and no half of it is ever seen."""

import json
from pathlib import Path

import pytest

from bot.cli.author.session import Logins, LoginsError, StoredLogin, logins_file


def stored(name: str) -> StoredLogin:
    return StoredLogin(f"https://{name}.example.com", f"imq_{name}", "mona", "github.com", "2026-02-01T00:00:00Z")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config" / "imq" / "logins.json"


def test_newest_login_counts_and_each_server_has_one(file: Path) -> None:
    """A login at one server replaces that server's former one only."""
    logins = Logins(file)
    assert logins.find(None) is None
    for name in ("one", "two", "one"):
        logins.add(stored(name))
    assert logins.find(None) == stored("one")
    assert logins.find("https://two.example.com") == stored("two")
    logins.remove("https://one.example.com")
    assert logins.find(None) == stored("two")
    assert logins.find("https://one.example.com") is None
    logins.remove("https://two.example.com")
    assert logins.find(None) is None


def test_file_is_readable_by_its_owner_alone(file: Path) -> None:
    """From its first byte on, and again where somebody opened it."""
    Logins(file).add(stored("one"))
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    file.chmod(0o644)
    assert Logins(file).find(None) == stored("one")
    assert file.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in file.parent.iterdir()] == ["logins.json"]


@pytest.mark.parametrize("content", ["", "[", "[]", '{"logins": [{"token": "imq_secret"}], "newest": ""}'])
def test_damaged_file_is_named_and_not_repeated(file: Path, content: str) -> None:
    """It may have a token in it."""
    file.parent.mkdir(parents=True)
    file.write_text(content)
    with pytest.raises(LoginsError) as problem:
        Logins(file).find(None)
    assert str(file) in str(problem.value)
    assert "imq_secret" not in str(problem.value)


def test_token_is_in_no_representation() -> None:
    """A traceback shows the server and the person."""
    assert "imq_one" not in repr(stored("one"))


@pytest.mark.parametrize(
    ("environ", "platform", "folder"),
    [
        ({"HOME": "/h/mona"}, "linux", "/h/mona/.config/imq"),
        ({"HOME": "/h/mona", "XDG_CONFIG_HOME": "/etc/mona"}, "linux", "/etc/mona/imq"),
        ({"HOME": "/u/mona"}, "darwin", "/u/mona/Library/Application Support/imq"),
        ({"USERPROFILE": "/u/mona", "APPDATA": "/u/mona/AppData/Roaming"}, "win32", "/u/mona/AppData/Roaming/imq"),
    ],
)
def test_file_is_where_the_platform_keeps_configuration(environ: dict[str, str], platform: str, folder: str) -> None:
    """XDG's variable counts everywhere."""
    assert logins_file(environ, platform) == Path(folder) / "logins.json"


def test_file_has_nothing_but_logins(file: Path) -> None:
    """Who reads the page on it finds these fields."""
    Logins(file).add(stored("one"))
    (login,) = json.loads(file.read_text())["logins"]
    assert set(login) == {"url", "token", "login", "github", "expires_at"}
