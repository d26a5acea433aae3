"""Read the clone in the current folder by git's own commands, which know `insteadOf` and every setting."""

import re
import subprocess
from dataclasses import dataclass
from urllib.parse import urlsplit

_SCP = re.compile(r"(?:[^@/:\s]+@)?(?P<host>[^/:\s]+):(?!//)(?P<path>\S+)")
_PATH = re.compile(r"/*(?P<owner>[A-Za-z0-9_.-]{1,100})/(?P<name>[A-Za-z0-9_.-]{1,100}?)(?:\.git)?/*")
_SSH_PREFIX = "ssh."


@dataclass(frozen=True, slots=True)
class RemoteRepository:
    """A repository on a `host`, which may be an alias of SSH, or is empty for a folder of this machine."""

    host: str
    owner: str
    name: str
    ssh: bool = False

    @property
    def full_name(self) -> str:
        return f"{self.owner}/{self.name}"

    def is_on(self, github: str) -> bool:
        """Whether the repository can be on this GitHub. An alias of an SSH configuration has often no dot."""
        if self.host in (github, _SSH_PREFIX + github):
            return True
        return self.ssh and ("." not in self.host or self.host.startswith(f"{github}-"))


def parse_remote(url: str) -> RemoteRepository | None:
    """Return the repository of a remote's URL; None for a path, or another form.

    Forms: git's page "GIT URLS". GitHub serves SSH at `ssh.github.com` too ("Using SSH over the HTTPS port").
    """
    if "://" in url:
        parts = urlsplit(url)
        if parts.scheme not in ("https", "http", "ssh", "git", "git+ssh"):
            return None
        host, path, ssh = parts.hostname or "", parts.path, "ssh" in parts.scheme
        if not ssh and _port(url) is not None:
            host = f"{host}:{_port(url)}"
    elif found := _SCP.fullmatch(url):
        host, path, ssh = found["host"].lower(), found["path"], True
    else:
        return None
    named = _PATH.fullmatch(path)
    return RemoteRepository(host, named["owner"], named["name"], ssh) if named and host else None


def parse_folder(url: str) -> RemoteRepository | None:
    """Return the repository that the end of a folder's path names, as of a mirror; None for another form."""
    path = urlsplit(url).path if url.startswith("file://") else url
    parts = path.rstrip("/").rsplit("/", 2)
    named = _PATH.fullmatch("/".join(parts[-2:])) if path.startswith("/") else None
    return RemoteRepository("", named["owner"], named["name"]) if named else None


def _port(url: str) -> int | None:
    try:
        return urlsplit(url).port
    except ValueError:
        return None


_NO_REPOSITORY = "not a git repository"
_ORDER = ("upstream", "origin")
"""The remotes of a clone of a fork: pull requests are in the first one."""


class CloneError(Exception):
    """The current folder is in no clone that helps. The message says why, with the way out."""


@dataclass(frozen=True, slots=True)
class Branch:
    """The checked-out branch. `remote` is where it is pushed, and `name` its name there."""

    remote: str | None
    name: str
    head_sha: str
    pushed: bool = False
    """Whether this clone has pushed its head, or fetched it from there."""
    default: bool = False
    """Whether it is the default branch there."""


class Clone:
    """The clone in the current folder."""

    def __init__(self) -> None:
        """Raise CloneError outside of one, or without git."""
        try:
            self._git("rev-parse", "--git-dir")
        except subprocess.CalledProcessError as refused:
            why = "" if _NO_REPOSITORY in refused.stderr else f" git says: {refused.stderr.strip()[:300]}"
            sentence = "This folder is in no git clone. Change to one, or give --repository OWNER/REPO."
            raise CloneError(sentence + why) from None
        except OSError:
            raise CloneError("git is not installed. Give --repository OWNER/REPO and the number.") from None

    def repositories(self, github: str | None) -> list[RemoteRepository]:
        """Return the repositories of remotes, likely ones first; folders if no remote has a host. Raises CloneError."""
        names = self._git("remote").split()
        names.sort(key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER))
        found = [each for name in names if (each := self.remote(name)) is not None]
        elsewhere = [each for each in found if each.host]
        fitting = [each for each in elsewhere if github is None or each.is_on(github)] if elsewhere else found
        if not fitting:
            where = "GitHub" if github is None else github
            raise CloneError(f"No remote of this clone is a repository on {where}. Give --repository OWNER/REPO.")
        return list(dict.fromkeys(fitting))

    def remote(self, name: str) -> RemoteRepository | None:
        """Return the repository of a remote; None if its address names none."""
        try:
            url = self._git("remote", "get-url", name)
        except subprocess.CalledProcessError:
            return None
        return parse_remote(url) or parse_folder(url)

    def branch(self) -> Branch:
        """Return the checked-out branch. Raises CloneError for a detached head, or a branch without a commit."""
        try:
            local = self._git("symbolic-ref", "--quiet", "--short", "HEAD")
        except subprocess.CalledProcessError:
            raise CloneError("No branch is checked out. Give the number of the pull request.") from None
        try:
            head = self._git("rev-parse", "--verify", "HEAD^{commit}")
        except subprocess.CalledProcessError:
            raise CloneError(f"The branch {local} has no commit yet.") from None
        pushed = self._git("for-each-ref", "--format=%(push:remotename) %(push:remoteref)", f"refs/heads/{local}")
        remote, _, ref = pushed.partition(" ")
        name, there = ref.removeprefix("refs/heads/") or local, f"refs/remotes/{remote or 'origin'}"
        is_pushed = self.full_sha(f"{there}/{name}") == head
        return Branch(remote or None, name, head, is_pushed, self._points_to(f"{there}/HEAD") == f"{there}/{name}")

    def _points_to(self, ref: str) -> str | None:
        try:
            return self._git("symbolic-ref", "--quiet", ref)
        except subprocess.CalledProcessError:
            return None

    def full_sha(self, text: str) -> str | None:
        """Return the commit that a person named; None for an unknown one."""
        try:
            return self._git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{text}^{{commit}}")
        except subprocess.CalledProcessError:
            return None

    def url_of_server(self) -> str | None:
        """Return the setting `imq.url` of the clone, which names its server."""
        try:
            return self._git("config", "--get", "imq.url") or None
        except subprocess.CalledProcessError:
            return None

    def _git(self, *arguments: str) -> str:
        command = ["git", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=True)  # noqa: S603
        return done.stdout.strip()
