"""Write together: an entry's change, its row in the timeline, and the notice of it.

Each function works inside the caller's transaction, so that a state change and its effects are stored together or not
at all (P2). `queue_engine.effects.notices` creates the notices.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from queue_engine.config.model import Policy
from queue_engine.core.read_model import adapter
from queue_engine.domain.departure import WITHDRAWN, Cause, DequeueReason, FailingCheckFacts, NewCommits
from queue_engine.domain.errors import GitHubError, Refused, StaleRecord
from queue_engine.domain.facts import LandingState, PullRequest, RequiredLanding, as_data
from queue_engine.domain.known_facts import of_pull
from queue_engine.domain.model import (
    Entry,
    EntryStatus,
    Pause,
    Queue,
    Repository,
    TimelineEvent,
    UnmetRequirement,
    failing_in,
)
from queue_engine.domain.notice import NoticeKind
from queue_engine.domain.policy import Mode, has_label
from queue_engine.domain.reasons import REASONS, Outcome, Reason
from queue_engine.effects import notices
from queue_engine.effects.context import Change, Engine
from queue_engine.effects.labels import queued_by, remove_testing_label
from queue_engine.effects.notices import (
    announce_dequeued,
    announce_withdrawn,
    has_check_run,
    remove_label,
    want_check_run,
)
from queue_engine.effects.renames import follow_label
from queue_engine.effects.stale_runs import cancel_later
from queue_engine.queries.queue_status import load_delay
from queue_engine.rules.check_progress import check_data
from queue_engine.rules.departure_facts import (
    BY_DISMISSAL,
    author_in_history,
    cause_of,
    cause_of_refusal,
    changed_lately,
    dismissal_of,
    is_in_history,
    lost_labels,
    may_merge_yet,
    never_set,
    pushed_head,
    with_deleted_label,
)
from queue_engine.rules.depth import waits_for_room
from queue_engine.rules.eligibility import Reject
from queue_engine.rules.landing_order import full_name, lands_before, set_of, split_name
from queue_engine.rules.transitions import preempted

_MEMBER = re.compile(r"([\w.-]+)/([\w.-]+)#(\d+)(?: |$)")
_CLOCK_SKEW = timedelta(minutes=1)
"""How far IMQ's clock may differ from GitHub's."""
_MOST_LANDED = 5
"""How many landed pull requests are compared with one that GitHub shows as merged."""


async def explained(engine: Engine, entry: Entry, lost: Reject) -> Reject:
    """Return the reason of a departure as GitHub's other facts explain it. Raises GitHubError.

    GitHub closes the open pull requests of a base branch that is deleted (Kodiak #232 and #706), and marks one as
    merged whose commits land with another. No source says whom it names as the sender then, so IMQ names no one. IMQ
    reads more only for a pull request that was closed, or merged without IMQ's own call: the caller has found out about
    that.
    """
    if lost.reason is Reason.CLOSED and await engine.github.branch_tip(entry.repository, entry.base_branch) is None:
        return Reject(Reason.BASE_DELETED)
    if lost.reason is Reason.MERGED_ELSEWHERE and (other := await _landed_with(engine, entry)) is not None:
        return Reject(Reason.LANDED_WITH_ANOTHER, f"landed with #{other}")
    return lost


async def _landed_with(engine: Engine, entry: Entry) -> int | None:
    """Return which queued pull request landed with all commits of this entry; None if none is known.

    The base lacked them before that landing, and had them after it. After somebody merged this one, the heads of others
    have its commits as well, by updates. The landings since it was queued are compared, the newest first.
    """
    async with engine.store.reading() as tx:
        landings = await tx.landings.latest(entry.repository.id, _MOST_LANDED, base_branch=entry.base_branch)
    found = dict[str, bool]()
    for each in landings:
        before = each.record["base"]["before"]
        for commit in (each.sha, before):
            if commit is not None and commit not in found:
                compared = await engine.github.comparison(entry.repository, commit, entry.head_sha)
                found[commit] = compared.head_landed
        if each.at < entry.enqueued_at or not found[each.sha]:
            return None
        if found.get(before) is False:
            return each.number if each.number != entry.number else None
    return None


async def with_author(
    engine: Engine, entry: Entry, why: DequeueReason, pull: PullRequest | None, policy: Policy
) -> DequeueReason:
    """Return the reason with who caused it, as GitHub's history of the pull request or of its branch says.

    IMQ reads that only if no webhook came: it was lost, or a restored database has none of what came after its backup.
    Raises StaleRecord if the label was not removed, but renamed in the repository.
    """
    merged = why.reason is Reason.MERGED_ELSEWHERE
    if pull is None or not (merged or why.reason is Reason.HEAD_CHANGED or is_in_history(why.reason)):
        return why
    async with engine.change() as change:
        known = await change.tx.known.lately(entry.repository.id, of_pull(entry.number), change.now)
        found = await _with_cause(change, entry, why, policy)
        labels = await queued_by(change.tx, entry.repository.id, entry.number, entry.trusted_labels, policy)
        own = await change.tx.outbox.wanted_labels(entry.repository.id, entry.number)
    if why.reason is not Reason.HEAD_CHANGED:
        if found.cause is not None or found.reason is not why.reason:
            return why
        if merged:
            # For commits that came with a push GitHub names who pushed them (go-gitea/gitea #6199).
            with suppress(GitHubError):
                is_own = pull.merged_by is None or pull.merged_by == await engine.github.own_login()
                return why if is_own else replace(why, by=pull.merged_by, by_bot=is_bot(pull.merged_by))
            return why
        recent, removed = {*own, *changed_lately(known, on=True)}, changed_lately(known, on=False)
        present = replace(pull, labels=frozenset(each for each in pull.labels if not has_label([each], recent)))
        with suppress(GitHubError):
            queuing = labels or policy.trigger_labels
            return await _with_author_in_history(engine, entry, why, present, queuing, removed)
        return why
    why = replace(why, pushed=pull.head_sha)
    if pushed_head(entry, known) is not None:
        return why
    with suppress(GitHubError):
        by = await _pusher(engine, entry.repository, pull)
        is_own = by is not None and by == await engine.github.own_login()
        return replace(why, pushed_by_imq=True) if is_own else replace(why, by=by, by_bot=is_bot(by))
    return why


async def _pusher(engine: Engine, repository: Repository, pull: PullRequest) -> str | None:
    """Return who pushed the present head, as the activity of its branch says. Raises GitHubError."""
    pushes = await engine.github.head_pushes(repository, pull)
    return next((each.by for each in pushes if each.after == pull.head_sha), None)


async def author_of_refusal(engine: Engine, repository: Repository, pull: PullRequest, reason: Reason) -> Cause | None:
    """Return who made the change for which a pull request is refused, by webhooks; if they were lost, by GitHub."""
    if reason not in (Reason.HEAD_CHANGED, Reason.BASE_CHANGED) or cause_of_refusal(reason, pull) is not None:
        return cause_of_refusal(reason, pull)
    by = None
    with suppress(GitHubError):
        if reason is Reason.HEAD_CHANGED:
            by = await _pusher(engine, repository, pull)
        else:
            history = await engine.github.history(repository, pull.number)
            made = author_in_history(history, DequeueReason(reason), (), datetime.min.replace(tzinfo=UTC))
            by = None if made is None else made.by
    return None if by is None else Cause(by, is_bot(by))


async def _with_author_in_history(
    engine: Engine,
    entry: Entry,
    why: DequeueReason,
    pull: PullRequest,
    labels: Collection[str],
    removed_lately: Collection[str],
) -> DequeueReason:
    """Return the reason with who caused it by GitHub's history; `labels` queued it. Raises GitHubError, StaleRecord.

    A label that was renamed is on, its history has the former name, and the repository has no label of that name. With
    two such names it is unknown which one was renamed, also if a new label has one of them now. `pull` has no label
    that was set lately: GitHub may show an older history.
    """
    github, repository, since = engine.github, entry.repository, entry.enqueued_at - _CLOCK_SKEW
    history = await github.history(repository, entry.number)
    made = author_in_history(history, why, labels, since)
    if made is None and why.reason is Reason.LABEL_REMOVED:
        gone = [each for each in sorted(labels) if not await github.has_label(repository, each)]
        renamed = never_set(history, pull.labels) if gone else []
        others = lost_labels(history, (*pull.labels, *labels, *removed_lately)) if gone else []
        if len(gone) == len(renamed) == 1 and not others and has_label(entry.trusted_labels, gone):
            await follow_label(engine, repository, gone[0], renamed[0])
            raise StaleRecord(f"the label {gone[0]} was renamed before it was read")
        removed = [each for each in history if each.kind == "unlabeled" and each.label and each.at >= since]
        former = never_set(history, [each.label or "" for each in removed]) if gone else []
        made = next((each for each in reversed(removed) if each.label in former), None)
        if gone and made is None:
            return replace(why, reason=Reason.LABEL_DELETED)
    return why if made is None else replace(why, by=made.by, by_bot=is_bot(made.by))


async def _with_cause(change: Change, entry: Entry, why: DequeueReason, policy: Policy | None) -> DequeueReason:
    """Find why an entry leaves, who caused that, and which commits a push brought, by the facts of webhooks."""
    if why.reason is Reason.PERMISSION_LOST:
        return replace(why, cause=Cause(entry.queued_by, is_bot(entry.queued_by)))
    known = await change.tx.known.lately(entry.repository.id, of_pull(entry.number), change.now)
    # Their names may be former ones of the configuration, or new ones on GitHub.
    trusted, queuing = entry.trusted_labels, frozenset[str]()
    if policy is not None:
        queuing = await queued_by(change.tx, entry.repository.id, entry.number, trusted, policy)

    def is_trigger(label: str) -> bool:
        return policy is None or policy.has_trigger_label([label]) or has_label([label], queuing)

    why = with_deleted_label(why, entry, known, is_trigger)
    why = replace(why, cause=cause_of(why, entry, known, is_trigger))
    if why.reason is not Reason.HEAD_CHANGED:
        return why
    pushed = pushed_head(entry, known) or why.pushed
    return replace(why, new_commits=NewCommits(entry.queued_head, entry.queued_by, pushed, why.pushed_by_imq))


def is_bot(login: str | None) -> bool:
    return login is not None and login.endswith("[bot]")


async def with_dismissal(change: Change, entry: Entry, lacks: UnmetRequirement) -> UnmetRequirement:
    """Return what the entry lacks, with who dismissed the approval after IMQ's update, if that is or was known."""
    former = next((each.cause for each in entry.unmet if each.reason is lacks.reason), None)
    if former is not None or lacks.reason not in BY_DISMISSAL:
        return lacks if former is None else lacks.caused(former)
    known = await change.tx.known.lately(entry.repository.id, of_pull(entry.number), change.now)
    cause = dismissal_of(entry, known)
    if cause is None or cause.after_update is None:
        return lacks
    return lacks.caused(f"dismissed by {cause.by} {cause.after_update:.0f} s after IMQ's update")


def _as_event_data(why: DequeueReason) -> dict[str, Any]:
    data: dict[str, Any] = {} if why.new_commits is None else {"new_commits": asdict(why.new_commits)}
    return data | cause_data(why.cause)


def cause_data(cause: Cause | None) -> dict[str, Any]:
    """Return, as data of an event, who caused that a pull request left its queue, or was not queued."""
    if cause is None:
        return {}
    data: dict[str, Any] = {"dequeued_by": cause.by} | ({"by_bot": True} if cause.bot else {})
    return data if cause.after_update is None else data | {"after_update": cause.after_update}


def status_of(reason: Reason) -> EntryStatus:
    """Return the final status of an entry that is dequeued for this reason."""
    return EntryStatus.FAILED if REASONS[reason].outcome is Outcome.FAILED else EntryStatus.CANCELLED


async def delays_caused(change: Change, entry: Entry) -> dict[str, Any]:
    """Return, as data of an event, which entries this entry's precedence delays, and each by about how many seconds."""
    if entry.priority <= 0 and not entry.hotfix:
        return {}
    _, found = await load_delay(change.tx, entry, change.now)
    if not found.numbers:
        return {}
    return {"delays": list(found.numbers), "delay": None if found.by is None else round(found.by.total_seconds())}


async def dequeue(change: Change, entry: Entry, why: DequeueReason, policy: Policy | None) -> None:
    """Dequeue an entry. This is the only function that removes an entry which has not landed.

    Without `policy` nothing is announced: for callers whose announcement failed. Raises StaleRecord if the entry
    changed since it was read.
    """
    why = await _with_cause(change, entry, why, policy)
    tx, now, reason = change.tx, change.now, why.reason
    await tx.entries.remove(entry)
    await _hold_later_ones(change, entry, policy)
    await note_set_left(change, entry, reason)
    if may_merge_yet(entry, reason):
        await tx.pending_merges.put(entry, now)
    if not entry.is_ready:
        await _end_wait(change, entry, why, policy)
        return
    if policy is not None:
        await announce_dequeued(change, entry, why, policy)
        await remove_testing_label(change, entry, policy)
        await cancel_later(change, entry, policy)
    # Automation that sets the label again must not overrule the person who dequeued the pull request.
    if REASONS[reason].outcome is Outcome.FAILED or reason is Reason.UNQUEUED:
        await tx.rejections.put(entry.repository.id, entry.number, entry.head_sha, reason, now)
    await tx.queues.wake(entry.queue_id, now)
    checks = [check.name for check in why.checks]
    data: dict[str, Any] = {"head": entry.head_sha, "from": entry.status.value, "checks": checks, "detail": why.detail}
    if why.failing:
        data["failing"] = as_data(why.failing)
    if why.failure is not None:
        data["failure"] = adapter(FailingCheckFacts).dump_python(why.failure, mode="json")
    if reason is Reason.SHADOW_MODE:
        data |= {"priority": entry.priority, "labels": list(entry.trusted_labels)}
    data |= check_data(entry, now)
    data |= _as_event_data(why)
    await change.record(status_of(reason).value, entry, reason=reason, delivery=why.delivery, data=data)


async def withdraw(
    change: Change, repository: Repository, left: TimelineEvent, why: DequeueReason, policy: Policy
) -> None:
    """Record how a pull request lost its consent that shadow mode had dequeued by the event `left` (P4).

    Announce it, unless IMQ may write nothing: then sweeps do so after shadow mode.
    """
    tx, data = change.tx, {"head": left.data.get("head"), WITHDRAWN: True}
    data |= _as_event_data(replace(why, cause=None if why.by is None else Cause(why.by, why.by_bot)))
    queue, event = await tx.queues.find_or_create(repository, left.base_branch, change.now), status_of(why.reason)
    await change.record(event, queue, number=left.number, reason=why.reason, delivery=why.delivery, data=data)
    if await tx.shadow.mode(repository.id) is not Mode.SHADOW:
        await announce_withdrawn(change, repository, replace(left, reason=why.reason, data=data), policy)
        await remove_label(change, repository, left.number, policy)


async def _end_wait(change: Change, entry: Entry, why: DequeueReason, policy: Policy | None) -> None:
    """Record that a pull request does not join its queue after all: it was not in the queue, so nothing departs."""
    tx, now, reason = change.tx, change.now, why.reason
    await name_later_one(change, entry)
    if policy is not None:
        await announce_dequeued(change, entry, why, policy)
    refused = REASONS[reason].outcome is Outcome.FAILED
    if refused or reason is Reason.UNQUEUED:
        await tx.rejections.put(entry.repository.id, entry.number, entry.head_sha, reason, now)
    queue = await tx.queues.get(entry.queue_id)
    assert queue is not None
    data = {"head": entry.head_sha, "by": entry.queued_by, "detail": why.detail}
    data |= _as_event_data(why)
    event = "refused" if refused else EntryStatus.CANCELLED.value
    await change.record(event, queue, number=entry.number, reason=reason, delivery=why.delivery, data=data)


async def dequeue_together(
    change: Change, entries: Sequence[Entry], why: DequeueReason, policies: Callable[[Entry], Policy]
) -> None:
    """Dequeue entries for one reason. Raises StaleRecord if one changed since it was read."""
    # Lock all entries before any other write: handlers lock an entry before its queue, too.
    if not all([await change.tx.entries.lock(entry) for entry in entries]):
        raise StaleRecord("an entry changed before it was dequeued")
    for entry in entries:
        # One that was to land after another of these waits outside by now.
        present = await change.tx.entries.get(entry.id) if entry.depends_on else None
        await dequeue(change, present or entry, why, policies(entry))


async def pause(change: Change, queue: Queue, reason: Reason, detail: str) -> None:
    """Pause this queue until a maintainer resumes it; the next pass, at once, announces the pause."""
    await change.tx.pauses.put(queue.id, Pause(reason, detail, change.now))
    await change.record("paused", queue, reason=reason, data={"detail": detail})


async def pause_refused(change: Change, queue_id: int, error: GitHubError, until: datetime | None = None) -> None:
    """Pause this queue, once, while GitHub refuses what IMQ may do; other errors pause nothing.

    Its own retries go on, and end the pause; with `until` only a read of the repository does, or that instant.
    """
    queue = await change.tx.queues.get(queue_id)
    known = None if queue is None else queue.pause(Reason.GITHUB_REFUSES)
    if not isinstance(error, Refused) or queue is None or (known is not None and (until is None or known.until)):
        return
    pause = Pause(Reason.GITHUB_REFUSES, error.message, change.now, until)
    await change.tx.pauses.note(queue_id, replace(known, until=until) if known else pause)
    if known is None:
        await change.record("paused", queue, reason=Reason.GITHUB_REFUSES, data={"detail": error.message})


PULL_REQUEST_JOB = "sweep_pull_request"
"""Kind of the job that revalidates or admits one pull request. It has the same process id as its webhooks."""

AUTO_MERGE_JOB = "disable_auto_merge"
"""Kind of the job that disables the auto-merge of one pull request."""


async def disable_later(change: Change, repository: Repository, number: int) -> None:
    request = {"repository": asdict(repository), "number": number}
    await change.enqueue(AUTO_MERGE_JOB, request, repository.id, number, once=True)


async def announce_not_ready(change: Change, entry: Entry, policy: Policy) -> None:
    """Announce what the pull request of an entry lacks, which waits outside the queue for that."""
    tx = change.tx
    await notices.announce_not_ready(change, entry, policy)
    if await has_check_run(tx, entry):
        # It left its queue now, or shadow mode kept IMQ from ending the check run when it left.
        notice = await notices.progress_notice(change, entry, NoticeKind.NOT_READY, policy, depth=0)
        await want_check_run(change, entry, notice, policy)
    labels = sorted(await queued_by(tx, entry.repository.id, entry.number, entry.trusted_labels, policy))
    unmet = [[each.reason.value, each.detail] for each in entry.unmet]
    data: dict[str, Any] = {"by": entry.queued_by, "labels": labels, "unmet": unmet}
    if failing := failing_in(entry.unmet):
        data["failing"] = as_data(failing)
    await name_later_one(change, entry)
    await read_set_again(change, entry)
    await change.record("not_ready", entry, reason=entry.unmet[0].reason, delivery=entry.delivery, data=data)


async def read_set_again(change: Change, entry: Entry) -> None:
    """Have the other members of the set read again for which an entry waits, since it may be the last to be ready."""
    details = [each.detail or "" for each in entry.unmet if each.reason is Reason.SET_WAITING]
    for owner, name, number in _MEMBER.findall(" ".join(details)):
        repository = await change.tx.repositories.named(owner, name)
        if repository is not None and await change.tx.entries.is_queued(repository.id, int(number)):
            await read_again(change, repository, int(number))


async def note_set_ready(change: Change, entry: Entry, landings: Iterable[RequiredLanding]) -> None:
    """Record the order in which a set lands, once all are ready; again if it changed, or if one has left since."""
    order = next((each.detail.split() for each in landings if each.state is LandingState.SET_READY), None)
    if order is None or not entry.is_ready:
        return
    past = await change.tx.timeline.of_set(entry.repository.id, entry.number)
    since = next((each for each in past if each.event != "set_landed"), None)
    if since is None or since.event == "set_left" or since.data.get("order") != order:
        for subject, number in await _members(change, order, entry):
            await _note(change, "set_ready", subject, number, {"order": order})


async def note_set_landed(change: Change, entry: Entry, sha: str) -> None:
    """Record in the history of each member that this one of the set landed."""
    for subject, number in await _members(change, await _order_of_set(change, entry), entry):
        await _note(change, "set_landed", subject, number, {"member": _own_name(entry), "sha": sha})


async def note_set_left(change: Change, entry: Entry, why: Reason) -> None:
    """Record in the history of each member that this one of the set left or is not ready, and why, until all are."""
    own, order = _own_name(entry), await _order_of_set(change, entry)
    for past in await change.tx.timeline.of_set(entry.repository.id, entry.number) if order else ():
        if past.event == "set_ready":
            break
        if past.event == "set_left" and past.data.get("member") == own:
            return
    for subject, number in await _members(change, order, entry):
        await _note(change, "set_left", subject, number, {"member": own, "why": why.value.replace("_", " ")})


async def _order_of_set(change: Change, entry: Entry) -> Sequence[str]:
    """Return the order in which the set of an entry lands, as recorded last; empty if its members were never ready."""
    past = await change.tx.timeline.of_set(entry.repository.id, entry.number) if set_of(entry) else ()
    return next((each.data["order"] for each in past if each.event == "set_ready"), ())


async def _members(change: Change, order: Sequence[str], entry: Entry) -> list[tuple[Entry | Queue, int]]:
    """Return the entry of each member, or the queue that it was in, with its number.

    A name in a description writes nothing into the history of a pull request that does not name this one, too.
    """
    tx, own = change.tx, _own_name(entry)
    found: list[tuple[Entry | Queue, int]] = []
    for owner, name, digits in _MEMBER.findall(" ".join(order)):
        number = int(digits)
        if f"{owner}/{name}#{number}" == own:
            found.append((entry, number))
        elif (repository := await tx.repositories.named(owner, name)) is not None:
            other = await tx.entries.find(repository.id, number)
            if other is not None:
                found += [(other, number)] if own in set_of(other) else []
                continue
            past = await tx.timeline.of_set(repository.id, number)
            ready = next((each for each in past if own in each.data.get("order", ())), None)
            queue = None if ready is None else await tx.queues.find(repository.id, ready.base_branch)
            found += [] if queue is None else [(queue, number)]
    return found


def _own_name(entry: Entry) -> str:
    return full_name(f"#{entry.number}", entry.repository)


async def _note(change: Change, event: str, subject: Entry | Queue, number: int, data: dict[str, Any]) -> None:
    """Record an event of a set in the history of one member, which its comment shows."""
    await change.record(event, subject, number=number, data=data)
    await change.tx.outbox.resend(subject.repository.id, number, due=change.now)


async def name_later_one(change: Change, entry: Entry) -> None:
    """Have the comments of the queued pull requests for which an entry waits, or waited, name it as they should."""
    for each in entry.unmet:
        parts = split_name(each.detail or "") if each.reason is Reason.DEPENDENCY_OPEN else None
        if parts and not parts[0] and await change.tx.entries.is_queued(entry.repository.id, parts[1]):
            await change.tx.outbox.resend(entry.repository.id, parts[1], due=change.now)


async def set_aside(change: Change, entry: Entry, lacks: UnmetRequirement, policy: Policy) -> Entry:
    """Have an entry wait outside its queue for what it lacks since IMQ updated it; it keeps its arrival and its head.

    The caller has proved the head. Raises StaleRecord.
    """
    lacks = await with_dismissal(change, entry, lacks)
    waiting = replace(preempted(entry, change.now), head_proved=True, held_since=None, blocked_since=None)
    return await _set_outside(change, entry, replace(waiting, blocked_until=None, blocked_for=None), (lacks,), policy)


async def unready(change: Change, entry: Entry, unmet: tuple[UnmetRequirement, ...], policy: Policy) -> Entry:
    """Have an entry wait outside its queue for what it lacks; its head keeps consent (P4). Raises StaleRecord."""
    waiting = replace(preempted(entry, change.now), queued_head=entry.head_sha, updated_from=None)
    return await _set_outside(change, entry, waiting, unmet, policy)


async def _set_outside(
    change: Change, entry: Entry, waiting: Entry, unmet: tuple[UnmetRequirement, ...], policy: Policy
) -> Entry:
    tx, now = change.tx, change.now
    saved = await tx.entries.save(replace(waiting, unmet=unmet, read_at=now))
    await tx.consents.follow(entry, saved, now)
    await remove_testing_label(change, entry, policy)
    await cancel_later(change, entry, policy)
    await announce_not_ready(change, saved, policy)
    if any(each.reason is Reason.DEPENDENCY_OPEN for each in unmet):
        # So far its description names it; whether it is there, open or in a cycle is still to be read.
        await read_again(change, entry.repository, entry.number)
    await tx.queues.wake(entry.queue_id, now)
    await _hold_later_ones(change, entry, policy)
    await note_set_left(change, entry, unmet[0].reason)
    return saved


async def _hold_later_ones(change: Change, entry: Entry, policy: Policy | None) -> None:
    """Have the entries wait outside that were to land after this one, which left its queue without landing."""
    if not entry.is_ready:
        return
    lacks = UnmetRequirement(Reason.DEPENDENCY_OPEN, f"#{entry.number}")
    # They are read each time: one that names several of a chain may have left with another one of them.
    while (other := await _next_after(change, entry)) is not None:
        if policy is None or not other.head_proved or other.run.merge_requested_at is not None:
            # A pass proves the head first, or follows the merge; then it finds the name in the description.
            kept = tuple(each for each in other.depends_on if each != lacks.detail)
            await change.tx.entries.save(replace(other, depends_on=kept, needs_refetch=True))
            await change.tx.queues.wake(other.queue_id, change.now)
        else:
            await unready(change, other, (lacks,), policy)


async def _next_after(change: Change, entry: Entry) -> Entry | None:
    """Return the first entry in the queue that was to land after this one; None if there is none."""
    ordered = await change.tx.entries.ordered(entry.queue_id)
    return next((each for each in ordered if entry.number in lands_before(each)), None)


async def announce_joined(change: Change, entry: Entry, policy: Policy, *, depth: int) -> Entry:
    """Announce, by the position among `depth`, that an entry has room or waits for it. Raises StaleRecord."""
    tx, now = change.tx, change.now
    waits = waits_for_room(entry.position, policy)
    if waits != (entry.held_since is not None):
        entry = await tx.entries.save(replace(entry, held_since=now if waits else None))
    await notices.announce_progress(change, entry, NoticeKind.QUEUED, policy, depth=depth)
    labels = sorted(await queued_by(tx, entry.repository.id, entry.number, entry.trusted_labels, policy))
    if waits:
        held = {"by": entry.queued_by, "labels": labels}
        await change.record("held", entry, reason=Reason.QUEUE_FULL, delivery=entry.delivery, data=held)
        return entry
    data = {"by": entry.queued_by, "head": entry.queued_head, "position": entry.position, "labels": labels}
    delays = await delays_caused(change, entry)
    await change.record("queued", entry, delivery=entry.delivery, data=data | delays)
    return entry


async def read_again(
    change: Change, repository: Repository, number: int, *, new: bool = False, after: timedelta = timedelta(0)
) -> None:
    """Enqueue the job that reads one pull request, in the order of its webhooks; a later job waits for itself alone."""
    await change.tx.jobs.enqueue(
        once=True,
        kind=PULL_REQUEST_JOB,
        request={"repository": asdict(repository), "number": number, "new": new},
        process_id=f"{PULL_REQUEST_JOB}:{repository.id}:{number}" if after else f"{repository.id}:{number}",
        now=change.now,
        not_before=change.now + after,
    )
