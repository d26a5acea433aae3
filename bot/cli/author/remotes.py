"""Find the repository that a git remote names. Pure.

Forms: git's page "GIT URLS". GitHub serves SSH at `ssh.github.com` too ("Using SSH over the HTTPS port").
"""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

_SCP = re.compile(r"(?:[^@/:\s]+@)?(?P<host>[^/:\s]+):(?!//)(?P<path>\S+)")
_PATH = re.compile(r"/*(?P<owner>[A-Za-z0-9_.-]{1,100})/(?P<name>[A-Za-z0-9_.-]{1,100}?)(?:\.git)?/*")
_SSH_PREFIX = "ssh."


@dataclass(frozen=True, slots=True)
class RemoteRepository:
    """A repository on a host. `host` may be an alias of somebody's SSH configuration where `ssh` is true.

    It is empty for a folder of this machine, whose path ends as the repository's name.
    """

    host: str
    owner: str
    name: str
    ssh: bool = False

    @property
    def full_name(self) -> str:
        """Return owner and name."""
        return f"{self.owner}/{self.name}"

    def is_on(self, github: str) -> bool:
        """Whether the repository can be on this GitHub. An alias of an SSH configuration has often no dot."""
        if self.host in (github, _SSH_PREFIX + github):
            return True
        return self.ssh and ("." not in self.host or self.host.startswith(f"{github}-"))


def parse_remote(url: str) -> RemoteRepository | None:
    """Return the repository of a remote's URL; None for a path, or another form."""
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
