"""Compare reads of pull requests, branches, checks and reviews with known facts. Pure functions.

`updated_at` moves with labels, closes and drafts, as GitHub's example payloads show, but not with each `synchronize`.
So IMQ compares fields beside the time, and superseded heads and changed labels by themselves.

Deliveries come in any order, so no fact replaces another: each push states that a branch left `before` for `after`.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from queue_engine.domain.facts import CheckReport, CheckState, PullRequest, RequiredCheck, Review, ReviewState, Snapshot
from queue_engine.domain.known_facts import (
    KEPT,
    NO_COMMIT,
    SETTLED,
    CheckResult,
    CommitStatus,
    Consent,
    ConversationChange,
    Known,
    MergeRequest,
    MergeResult,
    OwnLabel,
    PullRequestState,
    Push,
    ReviewChange,
)


def pushes(known: Sequence[Known], now: datetime) -> list[Push]:
    """Return the pushes among these facts, without old pushes that were only redelivered."""
    return [
        one.statement for one in known if isinstance(one.statement, Push) and (one.statement.at or one.at) > now - KEPT
    ]


def superseded(tip: str, pushed: Sequence[Push]) -> bool:
    """Return whether a branch is known to have left this tip, and not to have returned to it.

    A forced push may return a branch to an older commit: then the later of the two pushes counts, by GitHub's time. If
    the times are missing or in the same second, the tip counts as current.
    """
    left = [push for push in pushed if push.before == tip]
    if not left:
        return False
    if tip not in _reached_from({push.after for push in left}, pushed):
        return True
    times = [[push.at for push in those] for those in (left, [push for push in pushed if push.after == tip])]
    left_at, came_at = ([at for at in each if at is not None] for each in times)
    return bool(left_at and came_at) and max(left_at) > max(came_at)


def outdated_tip(branch: str, tip: str, known: Sequence[Known], now: datetime) -> str | None:
    """Say why a tip that was read is older than known facts; None if it is not."""
    gone = superseded(tip, pushes(known, now))
    return f"the branch {branch} is known to have moved on from {tip}" if gone else None


def current_tip(pushed: Sequence[Push]) -> str | None:
    """Return the one tip that no known push has left; None if there is none, or the branch was deleted."""
    tips = {push.after for push in pushed} - {push.before for push in pushed}
    return tips.pop() if len(tips) == 1 and NO_COMMIT not in tips else None


def exists(pushed: Sequence[Push]) -> bool:
    """Return whether a branch is known to exist: it was pushed to, and no fact reports a deletion."""
    return any(push.after != NO_COMMIT for push in pushed) and all(push.after != NO_COMMIT for push in pushed)


def _reached_from(tips: set[str], pushed: Sequence[Push]) -> set[str]:
    """Return the tips that pushes reach from these, and these."""
    reached, more = set[str](), set(tips)
    while more:
        reached |= more
        more = {push.after for push in pushed if push.before in more} - reached
    return reached


_VERDICTS = frozenset({ReviewState.APPROVED, ReviewState.CHANGES_REQUESTED, ReviewState.DISMISSED})


def outdated_reviews(reviews: Sequence[Review], known: Sequence[Known], now: datetime) -> str | None:
    """Return why these reviews, oldest first, are older than the facts of the last seconds; None if they are not."""
    verdicts = {
        one.statement.author: one.statement.state
        for one in known
        if isinstance(one.statement, ReviewChange) and one.statement.state in _VERDICTS and now - one.at < SETTLED
    }
    read = {review.author: review.state.value for review in reviews if review.state in _VERDICTS}
    # GraphQL leaves out dismissed reviews, and those of people without write permission: the latter lack for seconds.
    dismissed = ReviewState.DISMISSED.value
    differing = next((author for author, state in verdicts.items() if read.get(author, dismissed) != state), None)
    return None if differing is None else f"the review of {differing} is known to be {verdicts[differing]}"


def outdated_conversations(open_now: Collection[str], known: Sequence[Known], now: datetime) -> str | None:
    """Return why these open conversations differ from the facts of the last seconds; None if they do not.

    The read names all conversations of a page, but not those of later pages.
    """
    changes = {
        one.statement.id: one.statement.resolved
        for one in known
        if isinstance(one.statement, ConversationChange) and now - one.at < SETTLED
    }
    for conversation, resolved in changes.items():
        if resolved and conversation in open_now:
            return f"the conversation {conversation} is known to be resolved"
        if not resolved and not open_now:
            return f"the conversation {conversation} is known to be open"
    return None


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
        head_sha=state.head_sha,
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
    asked = [one.statement.head_sha for one in known if isinstance(one.statement, MergeRequest)]
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
        Push(before=state.before, after=state.head_sha, at=state.updated_at)
        for state in states
        if state.before is not None
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
        "head": (read.head_sha, state.head_sha),
        "base branch": (read.base_branch, state.base),
        "state": (read.open, state.open),
        "merge": (read.merged, state.merged),
        "draft": (read.draft, state.draft),
        "title": (read.title, state.title),
        "labels": (_folded(read.labels), _folded(state.labels)),
    }
    if state.auto_merge is not None:
        compared["auto-merge"] = (read.auto_merge, state.auto_merge)
    if state.order is not None:
        compared["order"] = (read.order, state.order)
    return [name for name, (was_read, is_known) in compared.items() if was_read != is_known]


_BEGUN_AGAIN = timedelta(minutes=1)
"""An App may restart a run that has ended, without any webhook: after this time the read counts."""


def statuses_matter(required: Collection[RequiredCheck], runs: Iterable[tuple[str, int | None, bool]]) -> bool:
    """Return whether statuses matter, by the name and App of each check run, and whether it is pending.

    They do not for a required check that is bound to an App and has a run of it. Nor do they for one that any App may
    report while its run is pending: no status makes it pass before.
    """
    known = set(runs)
    its_own, pending = {(name, app) for name, app, _ in known}, {name for name, _, waits in known if waits}
    return not required or any(
        check.name not in pending if check.app_id is None else (check.name, check.app_id) not in its_own
        for check in required
    )


def outdated_reports(
    reports: Sequence[CheckReport], required: Collection[RequiredCheck], known: Sequence[Known], now: datetime
) -> str | None:
    """Say why these reports are older than known facts; None if they are not."""
    runs = [(each.name, each.app_id, each.state is CheckState.PENDING) for each in reports if each.run_id is not None]
    with_statuses = statuses_matter(required, runs)
    for one in known:
        match one.statement:
            case CheckResult() as ended if not _shows_run(reports, ended, now - one.at):
                return f"the check run {ended.name!r} is known to have ended"
            case CommitStatus() as status if with_statuses and not _shows_status(reports, status, now - one.at):
                return f"the status {status.name!r} is known to be {status.state}"
    return None


def _shows_run(reports: Sequence[CheckReport], ended: CheckResult, since: timedelta) -> bool:
    """Return whether the reports have this run as it ended, or a newer run of its App and name."""
    same = next((report for report in reports if report.run_id == ended.id), None)
    if same is None:
        return any(
            report.run_id is not None
            and report.run_id > ended.id
            and (report.name, report.app_id) == (ended.name, ended.app_id)
            for report in reports
        )
    if same.state is CheckState.PENDING:
        return since >= _BEGUN_AGAIN or _later(same.started_at, ended.completed_at or ended.started_at)
    if same.conclusion == ended.conclusion:
        return True
    if same.completed_at == ended.completed_at:
        return since >= SETTLED
    return _later(same.completed_at, ended.completed_at)


def _shows_status(reports: Sequence[CheckReport], status: CommitStatus, since: timedelta) -> bool:
    """Return whether the reports have this status, or a later one of its name."""
    same = next((report for report in reports if report.run_id is None and report.name == status.name), None)
    if same is None:
        return False
    at = same.completed_at or same.started_at
    if same.conclusion == status.state or at is None or status.at is None:
        return same.conclusion == status.state or since >= SETTLED
    return since >= SETTLED if at == status.at else at > status.at


def _later(one: datetime | None, other: datetime | None) -> bool:
    return one is not None and other is not None and one > other
