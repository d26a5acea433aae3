"""Compare a read of a pull request with known facts. Pure functions.

`updated_at` moves with labels, closes and drafts, as GitHub's example payloads show; that of a `synchronize` is not
seen to move. So fields are compared beside the time, and superseded heads and changed labels by themselves.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from queue_engine.domain.facts import PullRequest, Snapshot
from queue_engine.domain.known_facts import (
    KEPT,
    SETTLED,
    Consent,
    Known,
    MergeRequest,
    MergeResult,
    OwnLabel,
    PullRequestState,
    Push,
)
from queue_engine.known.branches import superseded
from queue_engine.known.reviews import outdated_reviews


def outdated_pull(read: PullRequest, known: Sequence[Known], now: datetime) -> str | None:
    """Why this read is older than what is known; None if nothing speaks against it."""
    if read.merged:
        # A merge is final: no older state shows one.
        return None
    known = _of_late(known, now)
    if any(_says_merged(one) for one in known):
        return f"pull request {read.number} is known to be merged"
    if superseded(read.head_sha, _head_pushes(known)):
        return f"the head of pull request {read.number} is known to have moved on"
    if (label := _label_missed(read, known, now)) is not None:
        return f"the label {label!r} of pull request {read.number} is known to have changed"
    state = _state(known)
    if state is None:
        return None
    told, at = state
    differs = _differences(read, told)
    older = read.updated_at is not None and read.updated_at < told.updated_at
    same = read.updated_at is None or read.updated_at == told.updated_at
    if differs and (older or (same and now - at < SETTLED)):
        return f"pull request {read.number} is known to have another {', '.join(differs)}"
    return None


def outdated_snapshot(taken: Snapshot, known: Sequence[Known], now: datetime) -> str | None:
    """The same of a pull request with its reviews."""
    reviews = None if taken.reviews is None else outdated_reviews(taken.reviews, known, now)
    return outdated_pull(taken.pull, known, now) or reviews


def corrected(read: PullRequest, known: Sequence[Known], now: datetime) -> PullRequest | None:
    """A listed pull request with what is known in place of what is outdated; None if it is known not to be open."""
    if outdated_pull(read, known, now) is None:
        return read
    known = _of_late(known, now)
    state = _state(known)
    if any(_says_merged(one) for one in known) or state is None or not state[0].open:
        return None
    told = state[0]
    return replace(
        read,
        head_sha=told.head,
        base_branch=told.base,
        draft=told.draft,
        labels=frozenset(told.labels),
        title=told.title,
        mergeable=None,
        updated_at=told.updated_at,
    )


def webhooks_since(known: Sequence[Known], now: datetime) -> tuple[PullRequestState | Consent, ...]:
    """Return recent facts from webhooks, and when somebody queued it, in the order in which IMQ received them.

    A push may leave `updated_at` as it was.
    """
    return tuple(
        one.statement
        for one in known
        if isinstance(one.statement, Consent)
        or (
            isinstance(one.statement, PullRequestState)
            and (one.statement.before is not None or _is_of_late(one.statement, now))
        )
    )


def merged_as(known: Sequence[Known]) -> str | None:
    """The commit that GitHub answered IMQ's merge of it with, if it did."""
    return next((one.statement.sha for one in known if isinstance(one.statement, MergeResult)), None)


def requested_merge(known: Sequence[Known]) -> str | None:
    """The head that IMQ last asked GitHub to merge."""
    asked = [one.statement.head for one in known if isinstance(one.statement, MergeRequest)]
    return asked[-1] if asked else None


def _of_late(known: Sequence[Known], now: datetime) -> list[Known]:
    """Without what happened long ago and was only delivered again."""
    return [one for one in known if not isinstance(one.statement, PullRequestState) or _is_of_late(one.statement, now)]


def _is_of_late(state: PullRequestState, now: datetime) -> bool:
    return state.updated_at > now - KEPT


def _says_merged(one: Known) -> bool:
    return isinstance(one.statement, MergeResult) or (
        isinstance(one.statement, PullRequestState) and one.statement.merged
    )


def _head_pushes(known: Sequence[Known]) -> list[Push]:
    """Return the pushes to its head, by `synchronize` events."""
    states = [one.statement for one in known if isinstance(one.statement, PullRequestState)]
    return [Push(before=told.before, after=told.head, at=told.updated_at) for told in states if told.before is not None]


def _label_missed(read: PullRequest, known: Sequence[Known], now: datetime) -> str | None:
    """A label that was set or taken off just now, and is not so in this read."""
    last: dict[str, _LabelChange] = {}
    for one in known:
        told = one.statement
        if isinstance(told, PullRequestState):
            last = {label: change for label, change in last.items() if not _undone(label, change, told)}
        if isinstance(told, PullRequestState | OwnLabel) and told.label is not None:
            at = told.updated_at if isinstance(told, PullRequestState) else None
            last[told.label.casefold()] = _LabelChange(told.label_set, at, one.at)
    carried = _folded(read.labels)
    return next((label for label, change in last.items() if _doubted(label, change, read, carried, now)), None)


@dataclass(frozen=True, slots=True)
class _LabelChange:
    """A label was set or taken off: at GitHub's time, None if IMQ did it, and received at IMQ's."""

    label_set: bool
    changed_at: datetime | None
    told_at: datetime


def _undone(label: str, change: _LabelChange, state: PullRequestState) -> bool:
    """Whether a state that was told later, and is not older, shows the label otherwise. A label that is deleted from
    its repository leaves its pull requests by an `unlabeled` that names none."""
    newer = change.changed_at is None or state.updated_at >= change.changed_at
    return newer and (label in _folded(state.labels)) != change.label_set


def _doubted(label: str, change: _LabelChange, read: PullRequest, carried: frozenset[str], now: datetime) -> bool:
    """Whether a read lacks a change that is seconds old, and is not itself newer than that by as much."""
    if (label in carried) == change.label_set or now - change.told_at >= SETTLED:
        return False
    if change.changed_at is None or read.updated_at is None:
        return True
    return read.updated_at - change.changed_at < SETTLED


def _folded(labels: Iterable[str]) -> frozenset[str]:
    return frozenset(label.casefold() for label in labels)


def _state(known: Sequence[Known]) -> tuple[PullRequestState, datetime] | None:
    """Return the newest state, with the labels that IMQ changed since, and when IMQ received it."""
    states = [
        (one.statement, number) for number, one in enumerate(known) if isinstance(one.statement, PullRequestState)
    ]
    if not states:
        return None
    told, number = max(states, key=lambda each: (each[0].updated_at, each[1]))
    labels = {label.casefold(): label for label in told.labels}
    for later in known[number + 1 :]:
        if isinstance(later.statement, OwnLabel):
            labels.pop(later.statement.label.casefold(), None)
            if later.statement.label_set:
                labels[later.statement.label.casefold()] = later.statement.label
    return told.model_copy(update={"labels": tuple(labels.values())}), known[number].at


def _differences(read: PullRequest, told: PullRequestState) -> list[str]:
    """The fields in which a read differs from what is known."""
    compared = {
        "head": (read.head_sha, told.head),
        "base branch": (read.base_branch, told.base),
        "state": (read.open, told.open),
        "merge": (read.merged, told.merged),
        "draft": (read.draft, told.draft),
        "title": (read.title, told.title),
        "labels": (_folded(read.labels), _folded(told.labels)),
    }
    return [name for name, (was_read, is_known) in compared.items() if was_read != is_known]
