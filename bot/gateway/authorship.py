"""Find the authors of a pull request's commits."""

import re
from collections.abc import Iterable, Iterator

from bot.gateway.schemas import ListedPullCommitAnswer

_PARAGRAPHS = re.compile(r"\n[ \t]*\n")
_TRAILER = re.compile(r"co-authored-by[ \t]*:[ \t]*([^<>\n]+?)[ \t]*<([^<>\s]+)>[ \t]*", re.IGNORECASE)


def co_authors(commits: Iterable[ListedPullCommitAnswer], *, author: str) -> tuple[str, ...]:
    """Return `Name <address>` of everyone but the account `author`, each address once, in the order of the commits.

    A commit's own `Co-authored-by` trailers count, as in GitHub's squash; merge commits do not.
    """
    own: set[str] = set()
    found: dict[str, str] = {}
    for commit in commits:
        if len(commit.parents) > 1:
            continue
        if (person := commit.commit.author) is not None:
            if commit.author is not None and commit.author.login.casefold() == author.casefold():
                own.add(person.email.casefold())
            elif person.name and person.email:
                found.setdefault(person.email.casefold(), f"{person.name} <{person.email}>")
        for name, address in _trailers(commit.commit.message):
            found.setdefault(address.casefold(), f"{name} <{address}>")
    return tuple(shown for address, shown in found.items() if address not in own)


def _trailers(message: str) -> Iterator[tuple[str, str]]:
    """Return the trailers of the last paragraph; a message of one paragraph has none."""
    _, *paragraphs = _PARAGRAPHS.split(message.replace("\r\n", "\n").strip())
    for line in paragraphs[-1].split("\n") if paragraphs else ():
        if (trailer := _TRAILER.fullmatch(line)) is not None:
            yield trailer[1], trailer[2]
