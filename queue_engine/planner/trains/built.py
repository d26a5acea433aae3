"""Build on members that IMQ merged for earlier runs, so that a later run need not merge them again. Pure.

A failed run is followed by runs of its first members, whose commits its history has already. No branch has these
commits once the branches of the earlier run are deleted. GitHub keeps them all the same, and does not say for how long
(nvim-tree/nvim-tree.lua #1906; VonC on Stack Overflow, 17929891). Where it does not know one any more, IMQ merges them
again. A commit that was a candidate never becomes one again: the checks of its former branch would count for the new
one.

A title that asks CI to skip would leave the candidate untested: CI reads the newest commit's message. A bare number
would link each candidate on its pull request, and words such as "fixes" close issues only where the base is the default
branch, as after any merge.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from queue_engine.config.merge_commit import without_mentions, without_skips
from queue_engine.config.model import Policy
from queue_engine.domain.facts import CommitHistory, MergeMethod, PullRequest
from queue_engine.domain.run import Run, RunMember
from queue_engine.rules.merge_method import commit_message

_KEPT = 4
"""Histories kept: those of the runs that failed one after the other are mostly parts of the first."""

_NUMBER = re.compile(r"#(?=\d)")


@dataclass(frozen=True, slots=True)
class BuiltMember:
    """A member with its commit in the history of a candidate."""

    number: int
    head_sha: str
    method: MergeMethod
    commit: str
    tree: str


@dataclass(frozen=True, slots=True)
class BuiltHistory:
    """Members merged one after the other onto a commit."""

    base_tip: str
    members: tuple[BuiltMember, ...]


def history_of(run: Run) -> BuiltHistory:
    """Return the members of a run that are built, without those after the first that is not."""
    members: list[BuiltMember] = []
    for each in run.members:
        if each.commit is None or each.tree is None:
            break
        members.append(BuiltMember(each.number, each.head_sha, each.method, each.commit, each.tree))
    return BuiltHistory(run.base_tip or "", tuple(members))


def with_ended(kept: Iterable[BuiltHistory], run: Run, tip: str | None) -> tuple[BuiltHistory, ...]:
    """Keep what an ended run has built on the tip of the base."""
    found: list[tuple[BuiltMember, ...]] = []
    for members in sorted((_after(each, tip) for each in (*kept, history_of(run))), key=len, reverse=True):
        if members and not any(other[: len(members)] == members for other in found):
            found.append(members)
    return tuple(BuiltHistory(tip or "", members) for members in found[:_KEPT])


def former_candidates(histories: Iterable[BuiltHistory], candidates: Iterable[str | None]) -> tuple[str, ...]:
    """Return the candidates that these histories contain."""
    commits = {each.commit for history in histories for each in history.members}
    return tuple(dict.fromkeys(each for each in candidates if each in commits and each is not None))


def begun_on(
    members: tuple[RunMember, ...],
    histories: Iterable[BuiltHistory],
    tip: str,
    candidates: Collection[str | None],
) -> tuple[RunMember, ...]:
    """Return the members of a new run on this tip, the first ones with the commits of the longest equal history.

    The last member has none of the former `candidates`: its commit becomes the candidate of the run.
    """
    longest: tuple[RunMember, ...] = ()
    for history in histories:
        same: list[RunMember] = []
        for mine, built in zip(members, _after(history, tip), strict=False):
            if (mine.number, mine.head_sha, mine.method) != (built.number, built.head_sha, built.method):
                break
            same.append(replace(mine, commit=built.commit, tree=built.tree, reused=True))
        if len(same) == len(members) and same[-1].commit in candidates:
            same.pop()
        longest = max(longest, tuple(same), key=len)
    return (*longest, *members[len(longest) :])


def _after(history: BuiltHistory, tip: str | None) -> tuple[BuiltMember, ...]:
    """Return the members whose commits the history has after this tip; none if it does not contain the tip."""
    if history.base_tip == tip:
        return history.members
    commits = [each.commit for each in history.members]
    return history.members[commits.index(tip) + 1 :] if tip in commits else ()


def merge_message(
    pull: PullRequest,
    policy: Policy,
    method: MergeMethod,
    queued_by: str = "",
    *,
    texts: CommitHistory | None = None,
    reviewers: Sequence[str] = (),
) -> str:
    """Return the message of the commit that merges this pull request.

    A commit that is squashed for the candidate never lands: it has no number at all, whatever the templates say.
    """
    wanted = commit_message(pull, MergeMethod.MERGE, policy, texts, queued_by=queued_by, reviewers=reviewers)
    title = wanted.title or f"Merge pull request {pull.number} from {pull.head_branch}"
    body = wanted.body if wanted.body is not None else _NUMBER.sub("", pull.title)
    text = without_mentions(without_skips(f"{title}\n\n{body}".strip()))
    return text if method is MergeMethod.MERGE else _NUMBER.sub("", text)
