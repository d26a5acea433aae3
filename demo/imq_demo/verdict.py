"""Check whether IMQ kept its promises in this run. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from imq_demo import comments
from imq_demo.changes import Change
from imq_demo.observe import ObservedPullRequest
from queue_engine.domain.notice import NoticeKind
from queue_engine.domain.reasons import Reason


@dataclass(frozen=True, slots=True)
class BaseCommit:
    """A commit of the base branch; `green` if the CI passes on its tree."""

    sha: str
    title: str
    green: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """The broken promises, a sentence each."""

    problems: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """Return 0 if every promise held, else 1."""
        return 1 if self.problems else 0


def judge(
    base: Sequence[BaseCommit],
    pulls: Sequence[ObservedPullRequest],
    changes: Mapping[int, Change],
    *,
    branch: str,
    label: str,
) -> Verdict:
    """Compare the outcome of each pull request with the expected one, and check every commit of the base."""
    problems = [f"{branch} was red at {commit.sha[:7]} ({commit.title})" for commit in base if not commit.green]
    landed = {changes[pull.number].key for pull in pulls if pull.merged}
    for pull in pulls:
        change = changes[pull.number]
        reason = comments.reason(pull.comments[-1], branch, label) if pull.comments else None
        found = (*_check_end(pull, change, landed), *_check_comments(pull), *_check_reason(pull, change, reason))
        problems += [f"#{pull.number} ({pull.title}) {problem}" for problem in found]
    return Verdict(tuple(problems))


def _check_end(pull: ObservedPullRequest, change: Change, landed: set[str]) -> Iterable[str]:
    if change.rival is not None:
        if pull.merged and change.rival in landed:
            yield "landed, and so did the change that conflicts with it"
        elif not pull.merged and change.rival not in landed:
            yield "did not land, nor did the change that conflicts with it"
    elif pull.merged and change.reason is not None:
        yield "landed, and must not"
    elif not pull.merged and change.reason is None:
        yield "is good, and did not land"


def _check_comments(pull: ObservedPullRequest) -> Iterable[str]:
    if len(pull.comments) != 1:
        yield f"has {len(pull.comments)} comments of IMQ instead of one"
    elif pull.merged != (pull.notice_kind is NoticeKind.LANDED):
        yield "has a comment with another outcome"
    elif not pull.settled:
        yield "is not finished: it still has its label, or its comment says that it waits"


def _check_reason(pull: ObservedPullRequest, change: Change, given: Reason | None) -> Iterable[str]:
    if pull.merged:
        return
    if given is None:
        yield "did not land, and its comment does not say why"
    elif change.reason is not None and given is not change.reason:
        yield f"was rejected for {given} instead of {change.reason}"
