"""Store a pull request that joins its queue."""

import re

from queue_engine.admission.case import EnqueueRequest
from queue_engine.config.model import Policy
from queue_engine.core.observability import trace
from queue_engine.domain.culprit import REVERTED
from queue_engine.domain.facts import BranchRules, PullRequest, Snapshot
from queue_engine.domain.known_facts import Consent, Fact, PullRequestState, of_pull
from queue_engine.domain.model import Entry, Queue, Repository, UnmetRequirement
from queue_engine.domain.policy import has_label
from queue_engine.effects.context import Change
from queue_engine.effects.record import announce_joined, announce_not_ready, disable_later, read_again
from queue_engine.queries.queue_status import load_durations
from queue_engine.rules.checks import requires_own_check
from queue_engine.rules.consent import head_branch_of, last_change
from queue_engine.rules.eligibility import disables_auto_merge
from queue_engine.rules.landing_order import all_names, waits_for
from queue_engine.rules.priority import earliest_key, precedence_of
from queue_engine.store import EntryConflict, Transaction

REVERT_MARK = "<!-- imq revert {number} -->"
"""In the description of a pull request that IMQ opened, to revert the one of this number."""
_MARKED = re.compile(REVERT_MARK.format(number=r"(\d{1,9})"), re.ASCII)


async def asked_by(tx: Transaction, repository_id: int, pull: PullRequest) -> str | None:
    """Return for whom IMQ opened this pull request, as mark and timeline agree; None if it did not."""
    if (found := _MARKED.search(pull.body)) is None:
        return None
    events = await tx.timeline.of_pull_request(repository_id, int(found[1]))
    opened = (each.data for each in events if each.event == REVERTED and each.data["revert"] == pull.number)
    return next((each["by"] for each in opened), None)


async def record_consent(change: Change, request: EnqueueRequest, pull: PullRequest) -> None:
    """Store when somebody asked for this pull request to be queued: later webhooks may withdraw that consent."""
    at, last = request.labeled_at or last_change(pull) or change.now, last_change(pull)
    if last is not None and any(isinstance(each, PullRequestState) and each.draft for each in pull.reported):
        # It was a draft, which was no withdrawal until now; everything else since the label has been judged.
        at = max(at, last)
    consent = Fact(subject=of_pull(pull.number), statement=Consent(at=at, by=request.by))
    await change.tx.known.record(request.case.repository.id, [consent], change.now)


async def store_entry(
    change: Change,
    queue: Queue,
    taken: Snapshot,
    rules: BranchRules,
    policy: Policy,
    request: EnqueueRequest,
    trusted: frozenset[str],
    unmet: tuple[UnmetRequirement, ...] = (),
) -> Entry:
    """Add a pull request to its queue, or outside of it if it lacks anything, and announce the entry.

    Returns the present entry if there is one.
    """
    tx, now, pull = change.tx, change.now, taken.pull
    author = await asked_by(tx, queue.repository.id, pull) or pull.author
    queued = await tx.entries.arrivals(queue.id)
    durations = await load_durations(tx, queue.repository.id, queue.base_branch)
    try:
        entry = await tx.entries.add(
            queue_id=queue.id,
            number=pull.number,
            title=pull.title,
            author=author,
            queued_by=request.by or "",
            queued_by_id=taken.person_id,
            source=request.source,
            queued_head=pull.head_sha,
            enqueued_at=now,
            arrived_at=request.arrived_at or request.case.attempt.arrived_at,
            stored_at=request.case.attempt.stored_at,
            ageing=policy.priority.ageing,
            earliest=lambda arrived: earliest_key(author, queued, durations, policy, arrived=arrived),
            trace=trace.current(),
            delivery=request.case.delivery,
            trusted_labels=sorted(trusted),
            newer_tip=taken.base_tip if taken.behind else None,
            head_branch=head_branch_of(pull),
            shared_head=await _shared_head(change, queue.repository, taken),
            own_check_required=requires_own_check(rules, policy),
            unmet=[each.as_data() for each in unmet] or None,
            read_at=now if unmet else None,
            depends_on=list(all_names(pull, queue.repository)) or None,
            **vars(request.order or precedence_of(trusted, policy)),
        )
    except EntryConflict:
        present = await tx.entries.find(queue.repository.id, pull.number)
        assert present is not None
        return present
    await _set_labels(change, request, pull, trusted, policy)
    if disables_auto_merge(pull, policy):
        await disable_later(change, queue.repository, pull.number)
    return await _announce(change, entry, policy)


async def _announce(change: Change, entry: Entry, policy: Policy) -> Entry:
    """Announce a new entry, and wake its queue if the entry is in it."""
    if not entry.is_ready:
        await announce_not_ready(change, entry, policy)
        return entry
    entry = await announce_joined(change, entry, policy, depth=entry.position + 1)
    await change.tx.queues.wake(entry.queue_id, change.now)
    if policy.trains.enabled:
        # Those that land after it may be tested with it now.
        for waiting in await change.tx.entries.waiting_outside(entry.repository.id):
            if waits_for(waiting, f"#{entry.number}"):
                await read_again(change, entry.repository, waiting.number)
    return entry


async def _set_labels(
    change: Change, request: EnqueueRequest, pull: PullRequest, trusted: frozenset[str], policy: Policy
) -> None:
    """Set the labels that are new consent: the label of the request, and labels that IMQ is about to remove after an
    earlier dequeue. Remove the label of an earlier outcome."""
    removals = await change.tx.outbox.wanted_labels(request.case.repository.id, pull.number)
    for label in sorted(trusted):
        if label == request.sets_label or (policy.has_trigger_label([label]) and has_label([label], removals)):
            await change.tx.outbox.want_label(request.case.repository, pull.number, label, on=True, due=change.now)
    for label in policy.labels.own:
        if has_label([*pull.labels, *removals], [label]):
            await change.tx.outbox.want_label(request.case.repository, pull.number, label, on=False, due=change.now)


async def _shared_head(change: Change, repository: Repository, taken: Snapshot) -> str | None:
    """Return the head branch, if it is the default branch, has a queue, or has rules that keep others from pushing."""
    pull = taken.pull
    shared = pull.head_repository == repository.full_name and (
        taken.head_guarded
        or pull.head_branch == pull.default_branch
        or await change.tx.queues.find(repository.id, pull.head_branch) is not None
    )
    return pull.head_branch if shared else None
