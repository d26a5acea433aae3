"""The record of a landing: what landed, what was tested, by which checks, with whose consent. Plain data.

One row a landing, stored in the landing's own transaction. As JSON it is the predicate of a passport, whose form
`docs/landing-v1.schema.json` has: nothing of it may change after a release.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from itertools import count
from os.path import commonprefix
from typing import Any

from queue_engine.domain.facts import MergeMethod


class LandingResult(StrEnum):
    """How the landed tree compares with the tested one."""

    EQUAL = "equal"
    EXEMPT = "exempt"
    """They differ only in files that need no test."""
    MISMATCH = "mismatch"
    UNPROVED = "unproved"
    """No check, or no tree, is known to compare with."""


class ProofKind(StrEnum):
    """Where a check ran that did not run on the candidate."""

    PULL_REQUEST = "pull_request"
    """On a member's own head: it judges the pull request, and not the tree."""
    SAME_TREE = "same_tree"
    """On another candidate, whose tree is the same."""


@dataclass(frozen=True, slots=True)
class CheckProof:
    """A check that passed, and counts for a landing."""

    name: str
    conclusion: str
    commit: str
    app: int | None = None
    """The App that reported it; None: GitHub names none."""
    url: str | None = None
    """Its page, as the App gives it: not trusted."""
    kind: ProofKind | None = None
    """Where it ran, if not on the candidate: then it was taken over."""


@dataclass(frozen=True, slots=True)
class LandingProof:
    """What let a candidate land, stored before it does: its checks, and the rules and configuration at that time."""

    checks: tuple[CheckProof, ...]
    rules: str | None
    """The SHA-256 of what GitHub requires of the base branch."""
    configuration: str
    """The SHA-256 of the configuration in force: the repository's, the organisation's and the operator's."""
    method: MergeMethod | None = None
    """How the pull request was to land; None: each member of a train has its own."""

    def with_checks(self, checks: Iterable[CheckProof]) -> "LandingProof":
        """Add the checks of members' own heads, in place of those that were read before."""
        kept = (each for each in self.checks if each.kind is not ProofKind.PULL_REQUEST)
        return replace(self, checks=(*kept, *checks))


@dataclass(frozen=True, slots=True)
class LandingRecord:
    """A landing as it is stored, with the signatures of its passport."""

    id: int
    repository_id: int
    base_branch: str
    number: int
    sha: str
    tree: str
    at: datetime
    result: LandingResult
    record: Mapping[str, Any]
    """Everything, as JSON data."""
    key_id: str | None = None
    """The key that signed it; None: no key was there."""
    signatures: tuple[str, ...] = ()
    """Of each statement of its passport, base64."""

    @property
    def place(self) -> tuple[datetime, int]:
        """Return its position in a list, after which the next page begins."""
        return self.at, self.id


@dataclass(frozen=True, slots=True)
class LandingKey:
    """A key that signs, or has signed, passports."""

    id: str
    public: str
    """Hexadecimal."""
    sealed: str | None
    """The private key, encrypted; None once the key signs no more."""
    since: datetime
    until: datetime | None


def checks_data(checks: Iterable[CheckProof], candidate: str) -> list[dict[str, Any]]:
    """Return checks as the record has them: those that agree in all but name and link stand together."""
    groups = dict[tuple[CheckProof, int], dict[str, str | None]]()
    for each in sorted(checks, key=lambda each: (each.name, each.app or 0, each.commit)):
        same = replace(each, name="", url=None)
        # Several workflows may report checks of one name.
        again = next(n for n in count() if each.name not in groups.get((same, n), ()))
        groups.setdefault((same, again), {})[each.name] = each.url
    return [_group(same, links, candidate) for (same, _), links in groups.items()]


def _group(same: CheckProof, links: Mapping[str, str | None], candidate: str) -> dict[str, Any]:
    start = commonprefix([each for each in links.values() if each is not None])  # noqa: RUF071 - characters, not folders
    made = {
        "app": same.app,
        "commit": None if same.commit == candidate else same.commit,
        "conclusion": None if same.conclusion == "success" else same.conclusion,
        "from": None if same.kind is None else same.kind.value,
        "url": start or None,
    }
    names = {name: None if link is None else link.removeprefix(start) for name, link in links.items()}
    return {name: each for name, each in made.items() if each is not None} | {"names": names}


def result_of(landed: str, tested: str | None, untested: Sequence[str], proof: LandingProof | None) -> dict[str, Any]:
    """Return the verdict on a landed tree as the record has it; `untested` are files that differ and need no test."""
    if tested is None:
        return {"result": LandingResult.UNPROVED.value, "why": "no tree was tested"}
    if landed != tested and not untested:
        return {"result": LandingResult.MISMATCH.value, "why": f"the tested tree is {tested}"}
    if proof is None:
        return {"result": LandingResult.UNPROVED.value, "why": "the checks that passed are not known"}
    if not proof.checks:
        return {"result": LandingResult.UNPROVED.value, "why": "no check reported, and none is required"}
    if landed != tested:
        return {"result": LandingResult.EXEMPT.value, "files": list(untested)}
    return {"result": LandingResult.EQUAL.value}


def is_proved(record: Mapping[str, Any]) -> bool:
    """Whether CI tested exactly the landed tree: not so where a train landed more members after this one."""
    if not record:
        return False
    trees: tuple[str, str] = (record["landed"]["tree"], record["candidate"]["tree"])
    return LandingResult(record["verdict"]["result"]) is LandingResult.EQUAL and trees[0] == trees[1]
