"""Pull requests that have to land before another one, as its description says: `Depends-On: acme/library#12`. Pure.

`Lands-With:` names others that land in one set with it, which counts if each member names all others. They wait until
all are ready, and land one after the other.

A line counts if it begins with the key, in any case, and is neither a quote nor code; it may be an item of a list, and
emphasized. Its value is one name or several: `#12`, `owner/repository#12`, or a page of a pull request on the same
GitHub. What people type is read generously: a line that does not count lets a pull request land too early.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from urllib.parse import urlsplit

from queue_engine.domain.facts import LandingState, PullRequest, RequiredLanding
from queue_engine.domain.model import Entry, Repository, UnmetRequirement
from queue_engine.domain.reasons import Reason
from queue_engine.rules.comment_lines import counting_lines

MOST = 10
"""How many pull requests one may name; more are not read, and it waits."""

_LONGEST = 200
_KEY = re.compile(
    r" {0,3}(?:(?:[-+*]|\d{1,9}[.)])[ \t]{1,4}(?:\[[ x]\][ \t]+)?)?"
    r"[*_]{0,3}(depends-on|lands-with)[*_]{0,3}:[*_]{0,3}[ \t]*(\S.*)",
    re.IGNORECASE,
)
_BEFORE, _WITH = "depends-on", "lands-with"
_NAME = re.compile(r"(?:([\w.-]{1,100}/[\w.-]{1,100}))?#([1-9]\d{0,8})", re.ASCII)
_PAGE = re.compile(r"/([\w.-]{1,100}/[\w.-]{1,100})/pull/([1-9]\d{0,8})(?:[/?#]\S*)?", re.ASCII)
_LINK = re.compile(r"\[[^\]\s]*\]\((\S+)\)")
_AS_CODE = re.compile(r"`([\w./-]*#\d+)`")
"""A name as IMQ's own comments show it."""

_WAITS = {
    LandingState.OPEN: Reason.DEPENDENCY_OPEN,
    LandingState.HIDDEN: Reason.DEPENDENCY_HIDDEN,
    LandingState.SET_OPEN: Reason.SET_WAITING,
}
_ENDS = {
    LandingState.ENDED: Reason.DEPENDENCY_ENDED,
    LandingState.CYCLE: Reason.DEPENDENCY_CYCLE,
    LandingState.SET_ENDED: Reason.SET_ENDED,
}


@lru_cache(8)
def order_lines(body: str) -> tuple[str, ...]:
    """Return the lines of a description that name other pull requests, of either kind."""
    found = counting_lines(_AS_CODE.sub(r"\1", body), lambda line: _KEY.match(line) is not None, most=MOST + 1)
    return tuple(each[:_LONGEST] for each in found)


def required_names(pull: PullRequest, repository: Repository) -> tuple[str, ...]:
    """Return the pull requests that have to land before this one, each once: `#12` or `owner/repository#12`.

    What names no pull request of this GitHub is returned as it was typed: IMQ cannot see it.
    """
    return _names(pull, repository, _BEFORE)


def set_names(pull: PullRequest, repository: Repository) -> tuple[str, ...]:
    """Return the pull requests that land in one set with this one, in the same form."""
    return _names(pull, repository, _WITH)


def all_names(pull: PullRequest, repository: Repository) -> tuple[str, ...]:
    """Return what `Entry.depends_on` keeps: both, those of a set marked as such."""
    return (*required_names(pull, repository), *(f"with {each}" for each in set_names(pull, repository)))


def _names(pull: PullRequest, repository: Repository, key: str) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for line in order_lines(pull.body):
        if (value := _KEY.match(line)) is not None and value[1].casefold() == key:
            for word in re.split(r"[,\s]+", value[2].strip(", \t")):
                found[_name(word, pull, repository)] = None
    return tuple(found)[: MOST + 1]


def set_of(entry: Entry) -> frozenset[str]:
    """Return the full names of the others that land in one set with an entry, as its description says."""
    names = (each.removeprefix("with ") for each in entry.depends_on if each.startswith("with "))
    return frozenset(full_name(each, entry.repository) for each in names)


def full_name(name: str, repository: Repository) -> str:
    """Return a name that means the same in every repository, in lower case."""
    return f"{repository.full_name}{name}".lower() if name.startswith("#") else name.lower()


def lacked_beside_set(entry: Entry, members: Iterable[str]) -> UnmetRequirement | None:
    """Return what an entry outside its queue lacks first, beside the others of its set, by their full names."""
    for each in entry.unmet:
        of_set = each.reason is Reason.DEPENDENCY_OPEN and full_name(each.detail or "", entry.repository) in members
        if each.reason is not Reason.SET_WAITING and not of_set:
            return each
    return None


def _name(word: str, pull: PullRequest, repository: Repository) -> str:
    word = _LINK.sub(r"\1", word.strip("*_<>.;"))
    page = urlsplit(pull.url)
    beginning = f"{page.scheme}://{page.netloc}"
    known = _NAME.fullmatch(word)
    if known is None and pull.url and word.startswith(beginning):
        known = _PAGE.fullmatch(word.removeprefix(beginning))
    if known is None:
        return word
    owner = known[1] or repository.full_name
    return f"#{known[2]}" if owner.casefold() == repository.full_name.casefold() else f"{owner}#{known[2]}"


def split_name(name: str) -> tuple[str, int] | None:
    """Return the repository of a name, empty for one's own, and the number; None if it names no pull request."""
    found = _NAME.fullmatch(name)
    return None if found is None else (found[1] or "", int(found[2]))


def unmet_landings(landings: Iterable[RequiredLanding]) -> tuple[UnmetRequirement, ...]:
    """Return for which pull requests one waits: those that are open, and those that IMQ cannot see."""
    return tuple(UnmetRequirement(_WAITS[each.state], each.detail) for each in landings if each.state in _WAITS)


def ended_landing(landings: Iterable[RequiredLanding]) -> tuple[Reason, str] | None:
    """Return why one never lands: another closed without landing, or they wait for each other."""
    return next(((_ENDS[each.state], each.detail) for each in landings if each.state in _ENDS), None)


def new_requirements(entry: Entry, pull: PullRequest) -> tuple[UnmetRequirement, ...]:
    """Return the pull requests that a queued one names since it joined: it waits outside until IMQ has judged them."""
    names = all_names(pull, entry.repository)
    return tuple(UnmetRequirement(Reason.DEPENDENCY_OPEN, each) for each in names if each not in entry.depends_on)


def lands_before(entry: Entry) -> frozenset[int]:
    """Return the pull requests of its repository that have to land before this entry."""
    return frozenset(each[1] for name in entry.depends_on if (each := split_name(name)) and not each[0])


def in_chain(unmet: Sequence[UnmetRequirement], queued: Iterable[Entry]) -> tuple[UnmetRequirement, ...]:
    """Return what is unmet, without the pull requests that a train tests and lands before this one: `queued` ones."""
    names = {f"#{each.number}" for each in queued if each.is_ready}
    return tuple(each for each in unmet if each.reason is not Reason.DEPENDENCY_OPEN or each.detail not in names)


def waits_for(entry: Entry, name: str) -> bool:
    """Whether an entry waits outside its queue for the pull request of this name."""
    return any(each.reason is Reason.DEPENDENCY_OPEN and each.detail == name for each in entry.unmet)
