"""Compare a read of a pull request with known facts. Pure functions.

`updated_at` moves with labels, closes and drafts, as GitHub's example payloads show, but not with each `synchronize`.
So IMQ compares fields beside the time, and superseded heads and changed labels by themselves.
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
from queue_engine.known.reviews import outdated_conversations, outdated_reviews


def outdated_pull(read: PullRequest, known: Sequence[Known], now: datetime) -> str | None:
    """Say why this read is older than known facts; None if it is not."""
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
    newest = _state(known)
    if newest is None:
        return None
    state, at = newest
    differs = _differences(read, state)
    older = read.updated_at is not None and read.updated_at < state.updated_at
    same = read.updated_at is None or read.updated_at == state.updated_at
    if differs and (older or (same and now - at < SETTLED)):
        return f"pull request {read.number} is known to have another {', '.join(differs)}"
    return None


def outdated_snapshot(taken: Snapshot, known: Sequence[Known], now: datetime) -> str | None:
    """Say why a pull request, its reviews or conversations are older than known facts; None if they are not."""
    reviews = None if taken.reviews is None else outdated_reviews(taken.reviews, known, now)
    shown = taken.open_conversations
    conversations = None if shown is None else outdated_conversations(shown, known, now)
    return outdated_pull(taken.pull, known, now) or reviews or conversations


def corrected(read: PullRequest, known: Sequence[Known], now: datetime) -> PullRequest | None:
    """Replace the outdated fields of a listed pull request by known facts; None if it is known not to be open."""
    if outdated_pull(read, known, now) is None:
        return read
    known = _of_late(known, now)
    newest = _state(known)
    if any(_says_merged(one) for one in known) or newest is None or not newest[0].open:
        return None
    state = newest[0]
    return replace(
        read,
        head_sha=state.head,
        base_branch=state.base,
        draft=state.draft,
        labels=frozenset(state.labels),
        title=state.title,
        mergeable=None,
        updated_at=state.updated_at,
        auto_merge=read.auto_merge if state.auto_merge is None else state.auto_merge,
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
    """Return the commit in GitHub's answer to IMQ's merge, if there is one."""
    return next((one.statement.sha for one in known if isinstance(one.statement, MergeResult)), None)


def requested_merge(known: Sequence[Known]) -> str | None:
    """Return the head of IMQ's last merge request."""
    asked = [one.statement.head for one in known if isinstance(one.statement, MergeRequest)]
    return asked[-1] if asked else None


def _of_late(known: Sequence[Known], now: datetime) -> list[Known]:
    """Drop old states that were only redelivered."""
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
    return [
        Push(before=state.before, after=state.head, at=state.updated_at) for state in states if state.before is not None
    ]


def _label_missed(read: PullRequest, known: Sequence[Known], now: datetime) -> str | None:
    """Find a label that was just set or removed, and that this read shows otherwise."""
    last: dict[str, _LabelChange] = {}
    for one in known:
        state = one.statement
        if isinstance(state, PullRequestState):
            last = {label: change for label, change in last.items() if not _is_reverted(label, change, state)}
        if isinstance(state, PullRequestState | OwnLabel) and state.label is not None:
            at = state.updated_at if isinstance(state, PullRequestState) else None
            last[state.label.casefold()] = _LabelChange(state.label_set, at, one.at)
    carried = _folded(read.labels)
    return next((label for label, change in last.items() if _doubted(label, change, read, carried, now)), None)


@dataclass(frozen=True, slots=True)
class _LabelChange:
    """A label was set or removed: at GitHub's time, None if by IMQ, and received at IMQ's time."""

    label_set: bool
    changed_at: datetime | None
    received_at: datetime


def _is_reverted(label: str, change: _LabelChange, state: PullRequestState) -> bool:
    """Return whether a state that came later, and is not older, shows the label otherwise.

    A label that is deleted from its repository leaves its pull requests by an `unlabeled` that names no label.
    """
    newer = change.changed_at is None or state.updated_at >= change.changed_at
    return newer and (label in _folded(state.labels)) != change.label_set


def _doubted(label: str, change: _LabelChange, read: PullRequest, carried: frozenset[str], now: datetime) -> bool:
    """Return whether a read lacks a change of the last seconds, and is not newer than the change by as much."""
    if (label in carried) == change.label_set or now - change.received_at >= SETTLED:
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
    state, number = max(states, key=lambda each: (each[0].updated_at, each[1]))
    labels = {label.casefold(): label for label in state.labels}
    for later in known[number + 1 :]:
        if isinstance(later.statement, OwnLabel):
            labels.pop(later.statement.label.casefold(), None)
            if later.statement.label_set:
                labels[later.statement.label.casefold()] = later.statement.label
    return state.model_copy(update={"labels": tuple(labels.values())}), known[number].at


def _differences(read: PullRequest, state: PullRequestState) -> list[str]:
    """Name the fields in which a read differs from the known state."""
    compared: dict[str, tuple[object, object]] = {
        "head": (read.head_sha, state.head),
        "base branch": (read.base_branch, state.base),
        "state": (read.open, state.open),
        "merge": (read.merged, state.merged),
        "draft": (read.draft, state.draft),
        "title": (read.title, state.title),
        "labels": (_folded(read.labels), _folded(state.labels)),
    }
    if state.auto_merge is not None:
        compared["auto-merge"] = (read.auto_merge, state.auto_merge)
    return [name for name, (was_read, is_known) in compared.items() if was_read != is_known]
