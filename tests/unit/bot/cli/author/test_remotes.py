"""Which repository a git remote names, and what a branch has there."""

from pathlib import Path

import pytest

from bot.cli.author.clone import Clone, RemoteRepository, parse_folder, parse_remote
from tests.support.clones import PersonsClone


def test_every_form_of_a_remote_names_its_repository() -> None:
    """As git's page on URLs lists them; a password in one is dropped."""
    for url, host in [
        ("https://github.com/acme/widgets.git", "github.com"),
        ("https://github.com/acme/widgets", "github.com"),
        ("https://github.com/acme/widgets/", "github.com"),
        ("https://octocat:ghp_secret@github.com/acme/widgets.git", "github.com"),  # pragma: allowlist secret
        ("git@github.com:acme/widgets.git", "github.com"),
        ("github.com:acme/widgets", "github.com"),
        ("ssh://git@github.com/acme/widgets.git", "github.com"),
        ("ssh://git@ssh.github.com:443/acme/widgets.git", "ssh.github.com"),
        ("git@github-work:acme/widgets.git", "github-work"),
        ("git://github.com/acme/widgets.git", "github.com"),
        ("https://GITHUB.example.com/acme/widgets.git", "github.example.com"),
        ("http://127.0.0.1:8080/acme/widgets.git", "127.0.0.1:8080"),
    ]:
        found = parse_remote(url)
        assert found is not None, (url, host)
        assert (found.host, found.full_name) == (host, "acme/widgets"), (url, host)


@pytest.mark.parametrize(
    "url",
    [
        "/srv/git/widgets.git",
        "../widgets",
        "file:///srv/widgets.git",
        "https://github.com/acme",
        "git@github.com:a/b/c",
    ],
)
def test_remote_that_is_no_repository_on_a_host_names_none(url: str) -> None:
    """A path, a file, and an address with more or fewer parts."""
    assert parse_remote(url) is None


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("/srv/git/acme/widgets.git", "acme/widgets"),
        ("file:///srv/acme/widgets/", "acme/widgets"),
        ("../acme/widgets", None),
        ("/widgets", None),
        ("https://github.com/acme/widgets", None),
    ],
)
def test_absolute_path_of_a_folder_names_a_repository(url: str, name: str | None) -> None:
    """Its last two parts, as of a mirror."""
    found = parse_folder(url)
    assert (found and found.full_name) == name


@pytest.mark.parametrize(
    ("host", "ssh", "fits"),
    [
        ("github.com", False, True),
        ("ssh.github.com", True, True),
        ("work", True, True),
        ("github.com-work", True, True),
        ("gitlab.com", True, False),
        ("gitlab.com", False, False),
        ("github.com.evil.example", False, False),
        ("work", False, False),
    ],
)
def test_repository_of_another_host_is_not_asked_about(host: str, ssh: bool, fits: bool) -> None:
    """An SSH alias may stand for GitHub; a host with another name may not."""
    assert RemoteRepository(host, "acme", "widgets", ssh).is_on("github.com") is fits


@pytest.mark.process
def test_branch_says_what_its_remote_has_as_far_as_the_clone_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A push is remembered by git itself, with an upstream or without one."""
    monkeypatch.chdir(tmp_path)
    person = PersonsClone(tmp_path)
    person.git("init", "--quiet", "--initial-branch=main")
    person.git("init", "--quiet", "--bare", "there.git")
    person.git("remote", "add", "origin", "there.git")

    def state() -> tuple[bool, bool]:
        branch = Clone().branch()
        return branch.pushed, branch.default

    person.commit()
    assert state() == (False, False)
    person.git("push", "--quiet", "--set-upstream", "origin", "main")
    person.git("remote", "set-head", "origin", "main")
    assert state() == (True, True)
    person.git("checkout", "--quiet", "-b", "change")
    person.git("push", "--quiet", "origin", "change")
    assert state() == (True, False)
    person.commit()
    assert state() == (False, False)
