"""P4: find the head that a command, or a label without its webhook, consents to. GitHub does not name it.

The reconciler finds such a label: its webhook was lost, or the database that had the entry. IMQ queues the pull request
if GitHub proves that it still has the head that was labeled. Of any other, IMQ asks for lost deliveries, and the
label's own names its head. If that does not come within minutes, the pull request is refused as `label_not_received`,
and people read that they can queue it again.

The proof is the history of the head branch: each move of it, by GitHub's clock. The last one made the present head, and
came before the label. Everything else proves nothing:

- Commits have the dates that their authors give them, and so have the commits in GitHub's timeline (rousskov in
  squid-cache/squid #191, clerk/cli #444).
- A check suite or workflow run proves that a commit was there, on any branch; policy-bot #602 met that with statuses.
- `updated_at` moves with comments too, IMQ's own among them (fastlane/issue-bot #25, actions/stale #506). A push moves
  it (actions/stale #94, fwouts/prmonitor #91), but GitHub's example of a `synchronize` shows otherwise.

A command consents to the head at the time of its comment. GitHub's times have whole seconds, and deliveries come in any
order: a push of the same second, or a push whose webhook comes after that of the command, may be newer. Then the
command consents to nothing, and an entry that it queued already is dequeued when the push arrives. The same holds for a
changed base branch: the author of a pull request may change it without any permission on the repository.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta

from queue_engine.admission.stack_place import place_of
from queue_engine.config.model import Policy
from queue_engine.domain.consent import ConsentKind, heads_of
from queue_engine.domain.departure import is_withdrawn
from queue_engine.domain.facts import HeadPush, LabelEvent, PullRequest, Snapshot
from queue_engine.domain.known_facts import Consent, Fact, Known, PullRequestState, of_pull
from queue_engine.domain.model import EntryOrder, Repository, TimelineEvent
from queue_engine.domain.reasons import Reason
from queue_engine.effects.context import Engine
from queue_engine.rules.consent import is_own_update
from queue_engine.rules.priority import precedence_of
from queue_engine.store import Transaction

LOST_LABEL_JOB = "unseen_label"
"""Kind of the job that judges a pull request again when the label's webhook has not come."""

_WAIT = timedelta(minutes=5)
"""How long a lost delivery may take: the reconciler reads the list first, and requests hundreds in a minute."""

_ONE_CHANGE = timedelta(seconds=1)
"""How far GitHub's two times of one change may differ."""

_SETTLED = timedelta(minutes=1)
"""How long GitHub may show a pull request without the last push: a label set meanwhile was meant for another head."""

_HARMLESS = frozenset(
    {
        "added_to_project_v2",
        "assigned",
        "auto_merge_disabled",
        "auto_merge_enabled",
        "comment_deleted",
        "connected",
        "cross-referenced",
        "demilestoned",
        "disconnected",
        "labeled",
        "locked",
        "mentioned",
        "milestoned",
        "project_v2_item_status_changed",
        "ready_for_review",
        "referenced",
        "removed_from_project_v2",
        "renamed",
        "review_dismissed",
        "review_request_removed",
        "review_requested",
        "subscribed",
        "unassigned",
        "unlabeled",
        "unlocked",
        "unsubscribed",
    }
)
"""Events that withdraw no consent ("Issue event types"). All others may: a close, a draft, a changed base branch."""

_BY_STACKS = frozenset({"automatic_base_change_succeeded"})
"""GitHub changed the base branch as the pull request below landed: the consent to a stack foresees that."""


@dataclass(frozen=True, slots=True)
class LabelConsent:
    """Who consented to a head by a label that is still on, empty for a deleted account, and by what."""

    by: str
    source: ConsentKind = ConsentKind.LABEL
    left: TimelineEvent | None = None
    """When shadow mode dequeued it, if the ledger has the consent."""

    def order(self, labels: Iterable[str], policy: Policy) -> EntryOrder | None:
        """Return the precedence with a priority from a command before shadow mode; None: that of the labels."""
        data = {} if self.left is None else self.left.data
        by_labels = precedence_of(data.get("labels", ()), policy).priority
        if data.get("priority", by_labels) == by_labels:
            return None
        return replace(precedence_of(labels, policy), priority=data["priority"])


async def consenting_person(
    engine: Engine, repository: Repository, taken: Snapshot, label: LabelEvent, policy: Policy
) -> LabelConsent | None:
    """Return who consented to the present head by this label, and nothing has withdrawn that; None if not proved.

    GitHub proves that the pull request has the labeled head, or IMQ's own update of it, or the ledger has the head.
    Raises GitHubError.
    """
    pull = taken.pull
    if label.followed_by - _HARMLESS - _BY_STACKS:
        return None
    async with engine.store.reading() as tx:
        left = last_departure(await tx.timeline.of_pull_request(repository.id, pull.number))
    if is_withdrawn(left) and label.at <= left.at:
        return None
    own_login = await engine.github.own_login()
    if (queued := await _queued_before_shadow(engine, repository, taken, label, left, pull.head_sha)) is not None:
        return queued
    # IMQ sets the label after a `/queue`: only the lost database knew the person.
    labeler = None if label.by == own_login else LabelConsent(label.by or "")
    pushes = await engine.github.head_pushes(repository, pull)
    if not pushes or pushes[0].after != pull.head_sha:
        return None
    if label.followed_by & _BY_STACKS:
        labeler = None  # The label was for another base branch: only the ledger has for which.
    if labeler is not None and precedes(pushes[0], label, pull):
        return labeler
    # IMQ pushes to forks too, but their owners may forge commits like its updates.
    if len(pushes) == 1 or pull.head_repository != repository.full_name:
        return None
    update, labeled = pushes[:2]
    if labeled.after != update.before or update.by != own_login:
        return None
    by = await _queued_before_shadow(engine, repository, taken, label, left, labeled.after)
    by = labeler if by is None and precedes(labeled, label, pull) else by
    if by is None:
        return None
    compared = await engine.github.comparison(repository, pull.base_branch, pull.head_sha)
    return by if is_own_update(update.before, compared, policy) else None


def last_departure(events: Sequence[TimelineEvent]) -> TimelineEvent | None:
    """Return the last event of a pull request that has a reason; None if there is none."""
    return next((each for each in reversed(events) if each.reason is not None), None)


async def _queued_before_shadow(
    engine: Engine, repository: Repository, taken: Snapshot, label: LabelEvent, left: TimelineEvent | None, head: str
) -> LabelConsent | None:
    """Return who had queued this head when shadow mode dequeued it, if the label has stayed on since.

    The ledger names the head, so that neither a push in the label's second nor a label of IMQ's own is in doubt. It
    names the branch on which a stack lands, too. Earlier entries do not count, and neither does another person's label:
    it may have replaced the one that IMQ read. Raises GitHubError.
    """
    if left is None or left.reason is not Reason.SHADOW_MODE:
        return None
    place = await place_of(engine, repository, taken)
    base = taken.pull.base_branch if place is None else place.base_branch
    ledger = await engine.store.read(lambda tx: tx.consents.of_last_entry(left.repository_id, taken.pull.number))
    heads, last = heads_of(each for each in ledger if each.base_branch == base), left.data.get("head")
    queued = next((each for each in ledger if each.by), None)
    # The last head may be an update that was not proved yet, which the ledger lacks.
    if queued is None or head not in heads or (last in heads and last != head):
        return None
    since = {queued.by: queued.at, await engine.github.own_login(): left.at}.get(label.by)
    if since is None or label.at > since or queued.by is None:
        return None
    alone = any(each.source is ConsentKind.COMMAND_ALONE for each in ledger)
    return LabelConsent(queued.by, ConsentKind.COMMAND_ALONE if alone else ConsentKind.LABEL, left)


def precedes(push: HeadPush, label: LabelEvent, pull: PullRequest) -> bool:
    """Return whether the label was set on the head of this push. GitHub's times have whole seconds.

    In the minute after a push the pull request must not have changed after the label either: GitHub may have shown the
    push only then.
    """
    unchanged = pull.updated_at is not None and pull.updated_at <= label.at + _ONE_CHANGE
    return push.at < label.at if unchanged else push.at <= label.at - _SETTLED


async def await_webhook(engine: Engine, repository: Repository, number: int) -> None:
    """Enqueue a job that judges the pull request in some minutes, even without the label's webhook."""
    async with engine.change() as change:
        request = {"repository": asdict(repository), "number": number}
        await change.enqueue(LOST_LABEL_JOB, request, repository.id, number, at=change.now + _WAIT, once=True)


def changed_since(known: Iterable[Known], head_sha: str, commanded_at: datetime) -> Reason | None:
    """Find a change possibly newer than the command: a push of this head, another base branch, a close, a draft."""
    for one in known:
        state = one.statement
        if not isinstance(state, PullRequestState) or max(state.updated_at, one.at) < commanded_at:
            continue
        if state.base_changed:
            return Reason.BASE_CHANGED
        if state.before is not None and state.head_sha == head_sha:
            return Reason.HEAD_CHANGED
        if state.updated_at > commanded_at and not state.merged and (state.draft or not state.open):
            return Reason.DRAFT if state.open else Reason.CLOSED
    return None


async def consents(engine: Engine, repository: Repository, taken: Snapshot, commanded_at: datetime) -> bool:
    """Return whether a command of that time consents to the head that was read, by known pushes; stores this consent.

    Raises GitHubError.
    """
    number, head_sha = taken.pull.number, taken.pull.head_sha
    place = await place_of(engine, repository, taken)
    lands_on = None if place is None else place.base_branch
    async with engine.change() as change:
        known = await change.tx.known.lately(repository.id, of_pull(number), change.now)
        if changed_since(known, head_sha, commanded_at) is not None:
            return False
        consent = Consent(kind="commanded", head_sha=head_sha, at=commanded_at, lands_on=lands_on)
        await change.tx.known.record(repository.id, [Fact(subject=of_pull(number), statement=consent)], change.now)
    return True


async def is_commands(tx: Transaction, repository: Repository, number: int, head_sha: str, now: datetime) -> bool:
    """Return whether a recent command consented to this head.

    Then IMQ judges each push of this head, see `queue_engine.rules.consent.changed_since_command`.
    """
    known = await tx.known.lately(repository.id, of_pull(number), now)
    return any(isinstance(one.statement, Consent) and one.statement.head_sha == head_sha for one in known)
