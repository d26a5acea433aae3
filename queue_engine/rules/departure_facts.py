"""Derive a departure, its cause, and the merges that may follow it. Pure functions.

Each instant in the queue counts for one thing: a red base, else a pause, else what the entry's own status says. So the
parts add up to the whole. An event that seems to have happened before an earlier one, after a clock was set, counts as
simultaneous with it.

The webhook of the change that ended an entry names who made it. Without that webhook GitHub's history of the pull
request does, and for a push the activity of its branch; else IMQ names no one.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from queue_engine.config.model import Policy
from queue_engine.domain.departure import Cause, Departure, DequeueReason, RerunCheck
from queue_engine.domain.facts import FailingCheck, HistoryEvent, PullRequest
from queue_engine.domain.known_facts import Consent, Known, OwnLabel, PullRequestState, ReviewChange
from queue_engine.domain.model import Entry, EntryStatus, TimelineEvent
from queue_engine.domain.port import MergeState, PendingMerge
from queue_engine.domain.reasons import MERGED_REASONS, Reason, WaitKind
from queue_engine.rules.job_rates import JobFigures, total

_WAITS = frozenset({"queued", "held", "preempted", EntryStatus.PENDING})
"""Events after which an entry waits behind others."""
_PHASES = {
    **dict.fromkeys(_WAITS, WaitKind.CAPACITY),
    EntryStatus.CHECKING: WaitKind.CHECKS,
    **dict.fromkeys((EntryStatus.UPDATING, EntryStatus.READY, "blocked"), WaitKind.OTHER),
}


@dataclass(frozen=True, slots=True)
class _Phase:
    start: datetime
    end: datetime
    kind: WaitKind


@dataclass(frozen=True, slots=True)
class _Hold:
    """A blocker of the queue, from its beginning to its end."""

    start: datetime
    end: datetime
    reason: Reason | None

    def holds(self, at: datetime, phase: WaitKind) -> bool:
        # An entry whose checks do not start is in its checks; only the others wait for an administrator.
        waits = phase is WaitKind.CAPACITY or self.reason is not Reason.CHECKS_NOT_STARTING
        return self.start <= at < self.end and waits


def exempted(entry: Entry) -> frozenset[Reason]:
    """Return the blockers under which this entry proceeds."""
    exempt = {Reason.BASE_RED: entry.fixes_base, Reason.FROZEN: entry.freeze_exempt}
    return frozenset(reason for reason, holds_not in exempt.items() if holds_not)


def departure_of(
    end: TimelineEvent,
    own: Sequence[TimelineEvent],
    of_queue: Sequence[TimelineEvent],
    others_left: Collection[datetime],
    entry: Entry,
    shares: Mapping[int, float] = MappingProxyType({}),
    runs: Sequence[tuple[JobFigures, JobFigures]] = (),
) -> Departure:
    """Derive the departure that the event `end` completes.

    `own` are the events of its pull request, `of_queue` the pauses and resumptions of its queue, both oldest first.
    `others_left` is when other entries left the queue. `shares` are the parts that
    it has of the CI time of each run of a train. `runs` are what its part of the jobs of each such run costs, oldest
    first, and what of that reruns replaced.
    """
    own = [event for event in own if event.entry_id == end.entry_id and event.id < end.id]
    joined = entry.enqueued_at
    left = max(end.at, joined)
    phases = _phases(own, joined, left, others_left, is_behind=entry.position > 0)
    holds = _holds(of_queue, joined, left, exempted(entry))
    parts = _parts(phases, holds)
    return Departure(
        id=end.id,
        entry_id=end.entry_id or "",
        repository_id=end.repository_id,
        base_branch=end.base_branch,
        number=end.number,
        title=entry.title,
        author=entry.author,
        enqueued_at=joined,
        left_at=left,
        outcome=EntryStatus(end.event),
        reason=end.reason,
        waited=(left - joined).total_seconds(),
        **{kind.value: parts[kind].total_seconds() for kind in WaitKind},
        ci_seconds=_ci_seconds([*own, end], shares),
        reruns=sum(event.event == "rerun" for event in own),
        flaky=_flaky(own),
        **_job_sums([*own, end], runs, in_train=entry.run.has_branch),
    )


def _job_sums(
    events: Sequence[TimelineEvent], runs: Sequence[tuple[JobFigures, JobFigures]], *, in_train: bool
) -> dict[str, Any]:
    """Return what the jobs cost; of the events of one tested commit the newest has all."""
    tests: dict[object, tuple[JobFigures, JobFigures]] = {}
    for event in events:
        if event.data.get("jobs") is not None:
            tests.pop(event.data.get("tested"), None)
            tests[event.data.get("tested")] = job_figures(event)
    every = [*tests.values(), *runs] if in_train else [*runs, *tests.values()]
    again = total(reruns for _, reruns in every)
    before = every[:-1] if events[-1].event == EntryStatus.LANDED else ()
    spared = JobFigures(**events[-1].data.get("spared_jobs") or {})
    found = {
        "ci": total(spent for spent, _ in every),
        "rerun": again,
        "reset": total(spent + reruns.times(-1) for spent, reruns in before),
        "spared": spared,
    }
    sums: dict[str, Any] = {f"{name}_minutes": each.minutes for name, each in found.items()}
    sums |= {f"{name}_cost": each.cost or 0.0 for name, each in found.items()}
    return sums | {"priced": float(found["ci"].cost is not None)}


def job_figures(event: TimelineEvent) -> tuple[JobFigures, JobFigures]:
    """Return what an event says that jobs cost, and what of that reruns replaced."""
    spent, reruns = (JobFigures(**event.data.get(name) or {}) for name in ("jobs", "rerun_jobs"))
    return spent, reruns


def _phases(
    own: Sequence[TimelineEvent],
    joined: datetime,
    left: datetime,
    others_left: Collection[datetime],
    *,
    is_behind: bool,
) -> list[_Phase]:
    """Divide the time in the queue by the entry's status; the first entry of a queue waits behind no other."""
    begun = [(joined, WaitKind.CAPACITY)]
    for event in own:
        if (kind := _PHASES.get(event.event)) is None:
            continue
        at = event.at
        if event.event == EntryStatus.READY and (ended := event.data.get("ended")) is not None:
            at = min(at, datetime.fromisoformat(ended))
        begun.append((max(begun[-1][0], min(at, left)), kind))
    begun.append((left, WaitKind.OTHER))
    phases = [_Phase(start, end, kind) for (start, kind), (end, _) in pairwise(begun)]
    first = next((event for event in own if event.event in _WAITS), None)
    was_front = first is not None and first.data.get("position") == 0
    return [
        part
        for index, phase in enumerate(phases)
        for part in _behind(
            phase, others_left, was_front=was_front and index < 2, is_behind=is_behind and phase is phases[-1]
        )
    ]


def _behind(
    phase: _Phase, others_left: Collection[datetime], *, was_front: bool, is_behind: bool
) -> tuple[_Phase, ...]:
    """Divide a wait at the instant from which no other entry was ahead."""
    if phase.kind is not WaitKind.CAPACITY or is_behind:
        return (phase,)
    last = max((at for at in others_left if phase.start < at <= phase.end), default=None)
    if last is None:
        last = phase.start if was_front else phase.end
    return _Phase(phase.start, last, WaitKind.CAPACITY), _Phase(last, phase.end, WaitKind.OTHER)


def _holds(
    of_queue: Iterable[TimelineEvent], joined: datetime, left: datetime, exempt: Collection[Reason]
) -> list[_Hold]:
    """Return when the queue was blocked; a blocker whose beginning is not known began before the entry joined."""
    found: list[_Hold] = []
    open_since: dict[Reason | None, tuple[datetime, datetime]] = {}
    known: set[Reason | None] = set()
    for event in of_queue:
        if event.reason in exempt:
            continue
        began = open_since.pop(event.reason, None)
        if event.event == "paused":
            until = event.data.get("until")
            end = left if until is None else datetime.fromisoformat(until)
            open_since[event.reason] = (began[0] if began else event.at, end)
        elif began is not None:
            found.append(_Hold(began[0], min(event.at, began[1]), event.reason))
        elif event.reason not in known:
            found.append(_Hold(joined, event.at, event.reason))
        known.add(event.reason)
    return [*found, *(_Hold(start, end, reason) for reason, (start, end) in open_since.items())]


def _parts(phases: Iterable[_Phase], holds: Sequence[_Hold]) -> dict[WaitKind, timedelta]:
    parts = dict.fromkeys(WaitKind, timedelta(0))
    edges = {at for hold in holds for at in (hold.start, hold.end)}
    for phase in phases:
        cuts = sorted({phase.start, phase.end, *(at for at in edges if phase.start < at < phase.end)})
        for start, end in pairwise(cuts):
            reasons = {hold.reason for hold in holds if hold.holds(start, phase.kind)}
            kind = WaitKind.PAUSED if reasons else phase.kind
            parts[WaitKind.BASE_RED if Reason.BASE_RED in reasons else kind] += end - start
    return parts


def train_runs(own: Iterable[TimelineEvent]) -> frozenset[int]:
    """Return the runs of trains that tested the entry of these events."""
    return frozenset(run for event in own if "check_seconds" in event.data and (run := event.data.get("run")))


def share_of(number: int, tested: Collection[int]) -> float:
    """Return a member's part of the CI time of a run: those that it tests divide it, so that it counts once."""
    return 1 / len(tested) if number in tested else 0.0


def _ci_seconds(own: Iterable[TimelineEvent], shares: Mapping[int, float]) -> float | None:
    """Add up the seconds of all checks. Of the events of one tested commit the newest has all, but those of reruns."""
    known: dict[object, float] = {}
    for event in own:
        if seconds := event.data.get("check_seconds"):
            share = shares.get(event.data.get("run", 0), 1.0)
            known[event.data.get("tested", event.id)] = sum(seconds.values()) * share
    return float(sum(known.values())) if known else None


def _flaky(own: Sequence[TimelineEvent]) -> tuple[RerunCheck, ...]:
    """Return the checks that passed in a rerun, by name."""
    reruns = [event for event in own if event.event == "rerun"]
    found: dict[str, RerunCheck] = {}
    for event in own:
        if event.event == "flaky":
            of_head = [each for each in reruns if _of_one_head(each, event)]
            passed = next((each for each in own if each.event == EntryStatus.READY and each.at == event.at), event)
            for name in event.data.get("checks", ()):
                found[name] = _flaky_check(name, of_head, event, passed)
    return tuple(sorted(found.values(), key=lambda each: each.name))


def _flaky_check(name: str, reruns: Sequence[TimelineEvent], flaky: TimelineEvent, passed: TimelineEvent) -> RerunCheck:
    mine = [each for each in reruns if name in each.data.get("checks", ())]
    ended = passed.data.get("ended")
    until = passed.at if ended is None else datetime.fromisoformat(ended)
    waited = max(until - mine[0].at, timedelta(0)) if mine else timedelta(seconds=flaky.data.get("waited", 0))
    seconds = [each.data.get("check_seconds", {}).get(name) for each in mine]
    known = [each for each in seconds if each is not None]
    figures = [JobFigures(**each) for event in mine if (each := event.data.get("check_jobs", {}).get(name)) is not None]
    jobs = total(figures)
    return RerunCheck(
        name=name,
        jobs=_jobs(name, mine, flaky.data["checks"]),
        reruns=len(mine),
        ci_seconds=float(sum(known)) if known else None,
        waited=waited.total_seconds() / max(len(flaky.data["checks"]), 1),
        ci_minutes=jobs.minutes if figures else None,
        ci_cost=jobs.cost,
    )


def _jobs(name: str, reruns: Iterable[TimelineEvent], checks: Collection[str]) -> tuple[str, ...]:
    """Return the failed jobs of the check's workflow run; one that is itself among the rerun checks counts there."""
    failing = [each for event in reruns for each in FailingCheck.all_of(event.data) if each.check == name]
    jobs = dict.fromkeys(job for each in failing for job in each.jobs)
    return tuple(job for job in jobs if job == name or job not in checks)


def _of_one_head(rerun: TimelineEvent, flaky: TimelineEvent) -> bool:
    return rerun.id < flaky.id and rerun.data.get("head") == flaky.data.get("head")


def _deletes_label(state: PullRequestState) -> bool:
    """Whether a label of the repository was deleted: only then does GitHub's webhook name none (octokit/webhooks #639,
    rust-lang/triagebot #1878)."""
    return state.action == "unlabeled" and state.label is None


_MADE_BY: Mapping[Reason, Callable[[PullRequestState, Entry, str | None], bool]] = {
    Reason.LABEL_REMOVED: lambda state, _, detail: state.removed_label is not None,
    Reason.LABEL_DELETED: lambda state, *_: _deletes_label(state),
    Reason.HEAD_CHANGED: lambda state, entry, _: state.before is not None and state.head_sha != entry.head_sha,
    Reason.BASE_CHANGED: lambda state, entry, _: state.base_changed and state.base != entry.base_branch,
    Reason.CLOSED: lambda state, *_: state.action == "closed",
    Reason.MERGED_ELSEWHERE: lambda state, *_: state.merged and state.action == "closed",
    Reason.DRAFT: lambda state, *_: state.action == "converted_to_draft",
    Reason.BLOCKED_BY_LABEL: lambda state, _, detail: state.label_set and _same(state.label, detail),
    Reason.BLOCKED_BY_TITLE: lambda state, *_: state.action == "edited" and not state.base_changed,
    Reason.LABEL_MISSING: lambda state, _, detail: _same(state.removed_label, detail),
    Reason.AUTO_MERGE_ENABLED: lambda state, *_: state.action == "auto_merge_enabled",
}
"""The changes that cause a departure for a reason; `detail` is that of the reason."""


_IN_HISTORY: Mapping[Reason, frozenset[str]] = {
    Reason.LABEL_REMOVED: frozenset({"unlabeled"}),
    Reason.BASE_CHANGED: frozenset({"base_ref_changed", "automatic_base_change_succeeded"}),
    Reason.CLOSED: frozenset({"closed"}),
    Reason.BLOCKED_BY_TITLE: frozenset({"renamed"}),
    Reason.DRAFT: frozenset({"convert_to_draft"}),
    Reason.BLOCKED_BY_LABEL: frozenset({"labeled"}),
    Reason.LABEL_MISSING: frozenset({"unlabeled"}),
    Reason.AUTO_MERGE_ENABLED: frozenset({"auto_merge_enabled"}),
}
"""The changes that GitHub's history of a pull request has, by its names ("Issue event types")."""


def is_in_history(reason: Reason) -> bool:
    """Return whether GitHub's history may name who caused a departure for this reason."""
    return reason in _IN_HISTORY


def author_in_history(
    history: Sequence[HistoryEvent], why: DequeueReason, labels: Collection[str], since: datetime
) -> HistoryEvent | None:
    """Return the last event since then that may have caused a departure; `labels` are those that queued the entry."""
    last = next((each for each in reversed(history) if each.at >= since and _may_cause(each, why, labels)), None)
    return last if last is not None and last.kind in _IN_HISTORY[why.reason] else None


def _may_cause(event: HistoryEvent, why: DequeueReason, labels: Collection[str]) -> bool:
    """Whether an event is of the kind that caused this departure, or takes such a change back."""
    if why.reason is Reason.LABEL_REMOVED:
        return event.kind in {"labeled", "unlabeled"} and any(_same(event.label, each) for each in labels)
    if event.label is not None and not _same(event.label, why.detail):
        return False
    return event.kind in _IN_HISTORY[why.reason]


def never_set(history: Sequence[HistoryEvent], labels: Iterable[str]) -> list[str]:
    """Return which of these labels GitHub's history never shows being set: it has the former name of a renamed one."""
    known = {each.label.casefold() for each in history if each.kind == "labeled" and each.label is not None}
    return sorted({label for label in labels if label.casefold() not in known})


def lost_labels(history: Sequence[HistoryEvent], labels: Iterable[str]) -> list[str]:
    """Return which labels, beside these, are on by GitHub's history: they were renamed or deleted in the repository."""
    changes = [each for each in history if each.kind in {"labeled", "unlabeled"} and each.label is not None]
    last = {each.label.casefold(): each.kind for each in changes if each.label is not None}
    present = {each.casefold() for each in labels}
    return sorted(name for name, kind in last.items() if kind == "labeled" and name not in present)


def changed_lately(known: Sequence[Known], *, on: bool) -> frozenset[str]:
    """Return the labels that a person or IMQ has set, or removed, within the last quarter of an hour."""
    stated = [each.statement for each in known]
    states = [each for each in stated if isinstance(each, PullRequestState | OwnLabel) and each.label_set is on]
    return frozenset(each.label for each in states if each.label is not None)


BY_DISMISSAL = frozenset({Reason.APPROVAL_MISSING, Reason.CODE_OWNER_MISSING})
"""What a pull request may lack since somebody dismissed an approval."""


def dismissal_of(entry: Entry, known: Sequence[Known]) -> Cause | None:
    """Return who dismissed an approval last, and how long after IMQ's update; None if no webhook says so.

    An approval that was given again, or dismissed before the pull request was queued, causes nothing. No payload has
    the time of a dismissal, so the arrivals of both webhooks count.
    """
    newest = {each.statement.author: each for each in known if isinstance(each.statement, ReviewChange)}
    found = [each for each in newest.values() if each.at >= entry.enqueued_at]
    last = max((each for each in found if _is_dismissal(each.statement)), key=lambda each: each.at, default=None)
    if last is None or not isinstance(last.statement, ReviewChange) or last.statement.by is None:
        return None
    updates = [each.at for each in known if _is_update(each.statement, entry)]
    after = (last.at - updates[-1]).total_seconds() if updates and last.at >= updates[-1] else None
    return Cause(last.statement.by, last.statement.by_bot, after)


def with_deleted_label(
    why: DequeueReason, entry: Entry, known: Sequence[Known], is_trigger: Callable[[str], bool]
) -> DequeueReason:
    """Return the reason, for a missing label as webhooks explain it: no one removed it, but it was deleted itself."""
    if why.reason is not Reason.LABEL_REMOVED or cause_of(why, entry, known, is_trigger) is not None:
        return why
    states = [each.statement for each in known if isinstance(each.statement, PullRequestState)]
    deleted = any(_deletes_label(each) and not any(map(is_trigger, each.labels)) for each in states)
    return replace(why, reason=Reason.LABEL_DELETED) if deleted else why


def cause_of(
    why: DequeueReason, entry: Entry, known: Sequence[Known], is_trigger: Callable[[str], bool]
) -> Cause | None:
    """Return who caused this departure; None if no webhook says so. `known` are facts in their order.

    `is_trigger` returns whether a label queues.
    """
    reported = [each.statement for each in known]
    # What came before the consent, such as IMQ's own removal of an earlier label, withdraws nothing.
    since = max((one.at for one in reported if isinstance(one, Consent)), default=None)
    states = [
        state
        for state in reported
        if isinstance(state, PullRequestState) and (since is None or state.updated_at >= since)
    ]
    makes = _MADE_BY.get(why.reason)
    made = None
    for state in states if makes is not None else ():
        assert makes is not None
        if not makes(state, entry, why.detail):
            continue
        if why.reason is not Reason.LABEL_REMOVED or is_trigger(state.removed_label or ""):
            made = state
    if why.reason in BY_DISMISSAL and (dismissal := dismissal_of(entry, known)) is not None:
        return dismissal
    if why.by is not None:
        return Cause(why.by, why.by_bot)
    if made is None or made.by is None:
        return None
    return Cause(made.by, made.by_bot, _after_update(made, entry, states))


_MADE_PRESENT: Mapping[Reason, Callable[[PullRequestState, PullRequest], bool]] = {
    Reason.HEAD_CHANGED: lambda state, pull: state.before is not None and state.head_sha == pull.head_sha,
    Reason.BASE_CHANGED: lambda state, pull: state.base_changed and state.base == pull.base_branch,
    Reason.CLOSED: lambda state, _: state.action == "closed" and not state.merged,
    Reason.DRAFT: lambda state, _: state.action == "converted_to_draft",
}
"""The changes for which a pull request as it is now is refused."""


def cause_of_refusal(reason: Reason, pull: PullRequest) -> Cause | None:
    """Return who last made the change for which a pull request is refused; None if no webhook says so."""
    makes = _MADE_PRESENT.get(reason)
    states = [each for each in pull.reported if isinstance(each, PullRequestState)]
    made = next((each for each in reversed(states) if makes is not None and makes(each, pull)), None)
    return None if made is None or made.by is None else Cause(made.by, made.by_bot)


def withdrawn_by(state: PullRequestState, base_branch: str, policy: Policy) -> Reason | None:
    """Return how this very change ends the consent to land on this branch; None if it does not.

    For pull requests that shadow mode dequeued: there is no entry to revalidate.
    """
    if state.before is not None:
        return Reason.HEAD_CHANGED
    match state.action:
        case "unlabeled" if not policy.has_trigger_label(state.labels):
            if _deletes_label(state):
                return Reason.LABEL_DELETED
            return Reason.LABEL_REMOVED if policy.has_trigger_label([state.label or ""]) else None
        case "closed":
            return Reason.MERGED_ELSEWHERE if state.merged else Reason.CLOSED
        case "converted_to_draft":
            return Reason.DRAFT
        case "edited" if state.base_changed and state.base != base_branch:
            return Reason.BASE_CHANGED
    return None


def pushed_head(entry: Entry, known: Sequence[Known]) -> str | None:
    """Return the head after the last push that is not IMQ's own update; None if no webhook reported one."""
    pushes = _MADE_BY[Reason.HEAD_CHANGED]
    states = [each.statement for each in known if isinstance(each.statement, PullRequestState)]
    return next((each.head_sha for each in reversed(states) if pushes(each, entry, None)), None)


def _after_update(made: PullRequestState, entry: Entry, states: Sequence[PullRequestState]) -> float | None:
    """Return the seconds between IMQ's update and this change, which came later."""
    updates = [each.updated_at for each in states if _is_update(each, entry)]
    if not updates or made.updated_at < updates[-1]:
        return None
    return (made.updated_at - updates[-1]).total_seconds()


def _is_dismissal(statement: object) -> bool:
    return isinstance(statement, ReviewChange) and statement.state == "dismissed"


def _is_update(statement: object, entry: Entry) -> bool:
    """Whether a webhook reported IMQ's own update of the branch by this fact."""
    if not isinstance(statement, PullRequestState) or entry.head_sha == entry.queued_head:
        return False
    return statement.before is not None and statement.head_sha == entry.head_sha


def _same(label: str | None, other: str | None) -> bool:
    return label is not None and other is not None and label.casefold() == other.casefold()


def may_merge_yet(entry: Entry, reason: Reason) -> bool:
    """Return whether GitHub may merge this entry although it leaves for `reason`: no call stops a requested merge.

    The runs of trains keep what they have requested themselves.
    """
    return entry.run.merge_uuid is not None and not entry.run.has_branch and reason not in MERGED_REASONS


def is_requested_merge(pull: PullRequest, own_login: str, pending: PendingMerge | None) -> bool:
    """Return whether GitHub merged this pull request as IMQ requested, and not for somebody else since.

    `pending` is how far the request is, None if GitHub no longer knows it; it counts where GitHub names no account.
    """
    if pull.merged_by is not None:
        return pull.merged_by == own_login
    return pending is None or pending.state not in {MergeState.FAILED, MergeState.ENQUEUED}
