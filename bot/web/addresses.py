"""Addresses of pages, and whether an address is one of IMQ's own."""

import re
from urllib.parse import quote, urlsplit

from queue_engine.domain.model import Repository

_UNSAFE = re.compile(r"[^\x21-\x7e]|\\")
"""Characters that browsers drop from an address, or read as a slash: `/\\evil.example` leads to another host.

IMQ's own addresses are ASCII, as a `Location` has to be (RFC 9110, 10.2.2).
"""

_MAX_LENGTH = 2000


def repository_url(repository: Repository) -> str:
    """Return the address of a repository's page."""
    return f"/repositories/{quote(repository.owner, safe='')}/{quote(repository.name, safe='')}"


def queue_url(repository: Repository, branch: str) -> str:
    """Return the address of the page of a branch's queue."""
    return f"{repository_url(repository)}/branches/{quote(branch, safe='')}"


def landings_url(repository: Repository) -> str:
    """Return the address of the list of a repository's landings."""
    return f"{repository_url(repository)}/landings"


def shadow_url(repository: Repository) -> str:
    """Return the address of a repository's page of shadow mode."""
    return f"{repository_url(repository)}/shadow"


def pull_url(repository: Repository, number: int) -> str:
    """Return the address of a pull request's page."""
    return f"{repository_url(repository)}/pulls/{number}"


def login_url(to: str) -> str:
    """Return the address that logs a person in, and then leads to `to`."""
    return f"/login?to={quote(own_path(to), safe='/')}"


def own_path(to: str) -> str:
    """Return the path if it leads to a page of IMQ, else the first page's: no link leads through IMQ elsewhere."""
    if not to.startswith("/") or to.startswith("//") or len(to) > _MAX_LENGTH or _UNSAFE.search(to):
        return "/"
    try:
        parts = urlsplit(to)
    except ValueError:
        return "/"
    return "/" if parts.scheme or parts.netloc else to
