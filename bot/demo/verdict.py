"""Check whether IMQ kept its promises in this run. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bot.demo import comments
from bot.demo.changes import Change
from bot.demo.sight import PullSight
from queue_engine.domain.notice import NoticeKind
from queue_engine.domain.reasons import Reason


@dataclass(frozen=True, slots=True)
class BaseCommit:
    """One commit that the base branch stood at; `green` as the CI judges its tree."""

    sha: str
    title: str
    green: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """Every promise that did not hold, in a sentence each; none means that all is well."""

    problems: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """0 when everything held, else 1."""
        return 1 if self.problems else 0


def judge(
    base: Sequence[BaseCommit], pulls: Sequence[PullSight], changes: Mapping[int, Change], *, branch: str, label: str
) -> Verdict:
    """Compare what became of each pull request with what its change deserves, and look at every commit of the base."""
    problems = [f"{branch} was red at {commit.sha[:7]} ({commit.title})" for commit in base if not commit.green]
    landed = {changes[pull.number].key for pull in pulls if pull.merged}
    for pull in pulls:
        change = changes[pull.number]
        told = comments.reason(pull.said[-1], branch, label) if pull.said else None
        found = (*_end(pull, change, landed), *_comments(pull), *_reason(pull, change, told))
        problems += [f"#{pull.number} ({pull.title}) {problem}" for problem in found]
    return Verdict(tuple(problems))


def _end(pull: PullSight, change: Change, landed: set[str]) -> Iterable[str]:
    if change.rival is not None:
        if pull.merged and change.rival in landed:
            yield "landed, and so did the change that it cannot live with"
        elif not pull.merged and change.rival not in landed:
            yield "did not land, nor did the one that it stood against"
    elif pull.merged and change.reason is not None:
        yield "landed, and must not"
    elif not pull.merged and change.reason is None:
        yield "is good, and did not land"


def _comments(pull: PullSight) -> Iterable[str]:
    if len(pull.said) != 1:
        yield f"has {len(pull.said)} comments of IMQ instead of one"
    elif pull.merged != (pull.told is NoticeKind.LANDED):
        yield "has a comment that tells another end"
    elif not pull.settled:
        yield "is not finished: its label is still on, or its comment tells of waiting"


def _reason(pull: PullSight, change: Change, told: Reason | None) -> Iterable[str]:
    if pull.merged:
        return
    if told is None:
        yield "did not land, and its comment does not say why"
    elif change.reason is not None and told is not change.reason:
        yield f"stayed out because of {told}, and {change.reason} was to be expected"
