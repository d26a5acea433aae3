"""P4: which head may land: the queued one, and a new head that one table of sources lets replace it. Pure.

A push by IMQ's own login after IMQ's update request binds the new head at once; its parents prove it before it can
land. Without such a push, a fork's new head counts as another person's.

A read shows a pull request as it is now. A pull request that became a draft and is ready again looks unchanged. So does
one whose label a person removed, and another person without the right set again. Webhooks reported both changes. But
where reads lag, webhooks come in a burst, or IMQ restarts, the read may be newer than both.

GitHub's times have whole seconds: within one second the order of the webhooks' arrival counts.

Each path that binds a new head asks `may_bind`, and reads the fact that the answer needs.

The ledger (`queue_engine.store.consents`) has each head that was bound, with the source. What it lacks does not land.

| source | what proves it | in whose name |
| --- | --- | --- |
| a label, a command, an API call | `queue_engine.rules.eligibility` judges the person and the head | that person |
| IMQ's update | its parents: the head with consent, and a commit of the base | the person who queued it |
| IMQ's update, after a backup was restored | GitHub's signature for IMQ, and its parents | that person |
| IMQ's update for another entry of the branch | its parents, if the own base branch contains the second | that person |
| a named bot, which opened the pull request | it alone pushed since a known head | that person |
| anyone, while the pull request waits outside | all who pushed since the head may queue | that person |
| anyone, with `on_push: requeue` | the webhook, and the pusher's permission | the pusher |

Dependabot and Renovate rebase what they opened: they make a new commit on top of the base's tip and push it by force.
GitHub names the pusher in the webhook as its sender, and in the activity of the branch as its actor: `dependabot[bot]`
(docs, "Automating Dependabot with GitHub Actions"; medassist-ng #779). After a comment such as `@dependabot rebase`,
the person who commented may be named instead (carbonintensityio/green-scheduler #232; slack-mcp-server #43 saw it after
an update by the API): then it is a person's push.

Several queued pull requests may share a head branch, each for a base branch of its own. IMQ's update for one of them
merges the tip of its base branch into the head of all. For another one this is content that was not queued, unless its
own base branch contains that tip already.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

from queue_engine.config.model import Policy
from queue_engine.domain.consent import ConsentKind, HeadConsent, heads_of
from queue_engine.domain.facts import Comparison, HeadPush, Permission, PullRequest
from queue_engine.domain.known_facts import Consent, PullRequestState
from queue_engine.domain.model import Entry, EntryStatus, Repository, UnmetRequirement
from queue_engine.domain.policy import NotReadyPushPolicy, PushPolicy, has_label
from queue_engine.domain.port import NO_BRANCH
from queue_engine.domain.reasons import Reason
from queue_engine.rules.eligibility import (
    Admit,
    NotReady,
    Reject,
    blocked_by_config,
    may_queue,
    refused_by_config,
    waits,
)
from queue_engine.rules.transitions import preempted

CHANGED_SINCE_COMMAND: Mapping[Reason, str] = {
    Reason.HEAD_CHANGED: "commits were pushed in the same second as the command, or after it",
    Reason.BASE_CHANGED: "the base branch was changed in the same second as the command, or after it",
}
"""The detail that people read if a later change voids a command."""


def withdrawn_since_label(
    pull: PullRequest, *, base_branch: str, policy: Policy, labeled_at: datetime, by: str
) -> Reason | None:
    """Return why the label that this person set then is no consent any more; None if no webhook reports that."""
    since = _changes_since(pull, labeled_at, by, place=len(pull.reported))
    if _left(since, pull.head_sha):
        return Reason.HEAD_CHANGED
    return _withdrawn(since, base_branch, policy, by=by, trusted_labels=(), drafts=waits(policy))


def withdrawn_since_queued(pull: PullRequest, entry: Entry, policy: Policy) -> Reason | None:
    """Return why a queued pull request has no consent any more; None if webhooks reported no withdrawal.

    The instant at which IMQ queued it counts if the webhook of the consent is no longer stored. If trusted labels are
    known, only these labels count.
    """
    consents = [
        (place, one) for place, one in enumerate(pull.reported) if isinstance(one, Consent) and one.head_sha is None
    ]
    if consents:
        place, consent = consents[-1]
        since = _changes_since(pull, consent.at, consent.by, place=place)
    else:
        since = [
            one for one in pull.reported if isinstance(one, PullRequestState) and one.updated_at > entry.enqueued_at
        ]
    trusted, drafts = entry.trusted_labels, not entry.is_ready
    stays = entry.is_ready and entry.status is not EntryStatus.UPDATING and pull.head_sha == entry.head_sha
    if stays and _left(since, entry.head_sha):
        return Reason.HEAD_CHANGED
    return _withdrawn(since, entry.base_branch, policy, by=entry.queued_by, trusted_labels=trusted, drafts=drafts)


def _left(since: Sequence[PullRequestState], head_sha: str) -> bool:
    """Whether somebody pushed over this head: one that is there again has no consent."""
    return any(one.before == head_sha for one in since)


def changed_since_command(reported: Sequence[PullRequestState | Consent], head_sha: str) -> Reason | None:
    """Return why a command to queue this head is no consent; None if no command queued it, or nothing voids it.

    A push to the head, or a change of the base branch, voids the command if its webhook came after the command. The
    person who commented may not have known of that change. A command for a stack foresees the branch on which it lands.
    """
    commands = ((n, one) for n, one in enumerate(reported) if isinstance(one, Consent) and one.head_sha == head_sha)
    place, command = next(commands, (len(reported), None))
    for state in reported[place:]:
        foreseen = command is not None and isinstance(state, PullRequestState) and state.base == command.lands_on
        if isinstance(state, PullRequestState) and state.base_changed and not foreseen:
            return Reason.BASE_CHANGED
        if isinstance(state, PullRequestState) and state.before is not None and state.head_sha == head_sha:
            return Reason.HEAD_CHANGED
    return None


def withdrawal(state: PullRequestState, head_sha: str, base_branch: str, policy: Policy) -> Reason | None:
    """Return how this change of a pull request ends the consent to this head for this base branch, if it does."""
    if state.before == head_sha:
        return Reason.HEAD_CHANGED
    return _withdrawn([state], base_branch, policy, by="", trusted_labels=(), drafts=False)


def last_change(pull: PullRequest) -> datetime | None:
    """Return the pull request's last change, by the read and by webhooks: a later command is consent to it."""
    changes = [one.updated_at for one in pull.reported if isinstance(one, PullRequestState)]
    return max((at for at in (*changes, pull.updated_at) if at is not None), default=None)


def _changes_since(pull: PullRequest, at: datetime, by: str | None, *, place: int) -> list[PullRequestState]:
    """Return the states that webhooks reported after a consent of that time.

    Of the same second, those that arrived after the label's webhook count, or after `place` if that webhook is missing.
    """
    states = [(number, one) for number, one in enumerate(pull.reported) if isinstance(one, PullRequestState)]
    labels = [number for number, one in states if one.label_set and (one.updated_at, one.by) == (at, by)]
    place = max(labels, default=place)
    return [one for number, one in states if one.updated_at > at or (one.updated_at == at and number > place)]


def _withdrawn(
    since: Sequence[PullRequestState],
    base_branch: str,
    policy: Policy,
    *,
    by: str,
    trusted_labels: tuple[str, ...],
    drafts: bool,
) -> Reason | None:
    """`drafts`: whether a draft is no withdrawal, since the pull request is not in the queue yet."""
    # While the configuration cannot be read, its trigger labels are unknown.
    if policy.fault is None and _unlabeled(since, policy, by, trusted_labels):
        return Reason.LABEL_REMOVED
    for state in since:
        if not state.open and not state.merged:
            return Reason.CLOSED
        if state.base != base_branch:
            return Reason.BASE_CHANGED
        if state.draft and not drafts:
            return Reason.DRAFT
    return None


def _unlabeled(since: Sequence[PullRequestState], policy: Policy, by: str, trusted_labels: tuple[str, ...]) -> bool:
    """Whether a person removed the last trigger label; if `trusted_labels` are known, only those count.

    The person who queued the pull request may set the label again: that renews the consent, and keeps the position.
    """

    def queues(label: str | None) -> bool:
        return (
            label is not None
            and policy.has_trigger_label([label])
            and (not trusted_labels or has_label([label], trusted_labels))
        )

    renewals = [number for number, state in enumerate(since) if state.label_set and state.by == by]
    after = max((number for number in renewals if policy.has_trigger_label([since[number].label or ""])), default=0)
    return any(queues(state.removed_label) and not any(map(queues, state.labels)) for state in since[after:])


def consent_lost(entry: Entry, pull: PullRequest, policy: Policy) -> Reject | None:
    """Return why this entry no longer has consent, or None.

    While IMQ's own update is under way, a different head is no withdrawal: it has to be proved first. A pull request
    that waits until it is ready may be a draft, and have a label or title that the configuration blocks.
    """
    if (reason := _lost_by_state(entry, pull, policy)) is not None:
        return Reject(reason)
    blocked = blocked_by_config(pull, policy) if entry.is_ready or not waits(policy) else None
    if (refused := blocked or refused_by_config(pull, policy)) is not None:
        return refused
    if (reason := withdrawn_since_queued(pull, entry, policy)) is not None:
        return Reject(reason)
    if (reason := changed_since_command(pull.reported, entry.queued_head)) is not None:
        return Reject(reason, CHANGED_SINCE_COMMAND[reason])
    changed = entry.status is not EntryStatus.UPDATING and pull.head_sha != entry.head_sha
    return Reject(Reason.HEAD_CHANGED) if changed else None


def _lost_by_state(entry: Entry, pull: PullRequest, policy: Policy) -> Reason | None:
    if pull.merged:
        return Reason.MERGED_ELSEWHERE
    if not pull.open:
        return Reason.CLOSED
    if pull.base_branch != entry.base_branch:
        return Reason.BASE_CHANGED
    # While the configuration cannot be read, its trigger labels are unknown, and its queues hold.
    if policy.fault is None and not policy.has_trigger_label(pull.labels):
        return Reason.LABEL_REMOVED
    if policy.fault is None and not policy.enabled:
        return Reason.BRANCH_NOT_SERVED
    if pull.draft and entry.is_ready:
        return Reason.DRAFT
    return Reason.FORK_DELETED if pull.head_repository is None else None


A = TypeVar("A")


def head_branch_of(pull: PullRequest) -> str | None:
    """Return `owner/name:branch` of the head; None if its fork is deleted, or the branch is not known."""
    if pull.head_repository is None or not pull.head_branch:
        return None
    return f"{pull.head_repository}:{pull.head_branch}"


def most_active(others: Iterable[Entry]) -> Entry | None:
    """Return the entry whose update may have moved the shared head: the one that IMQ works on, else the first."""
    return min(others, key=lambda each: (each.status is EntryStatus.PENDING, each.seq), default=None)


def named(other: Entry | None) -> str | None:
    """Name a pull request that shares the head branch."""
    return None if other is None else f"#{other.number}, queued for {other.base_branch}"


def behind_others(others: Iterable[Entry], pull: PullRequest, policy: Policy, answer: A) -> A | NotReady | Reject:
    """Let a pull request wait while another one of the same branch is queued: IMQ may update the branch for that one.

    `others` have its head branch. Any other answer than that it may join, or wait, remains.
    """
    queued = [each for each in others if each.is_ready and each.base_branch != pull.base_branch]
    if not isinstance(answer, Admit | NotReady) or (other := most_active(queued)) is None:
        return answer
    if not waits(policy):
        return Reject(Reason.HEAD_SHARED, named(other))
    unmet = answer.unmet if isinstance(answer, NotReady) else ()
    return NotReady((UnmetRequirement(Reason.HEAD_SHARED, named(other)), *unmet))


_MORE_THAN_WRITE = frozenset({Permission.MAINTAIN, Permission.ADMIN})


class HeadFact(StrEnum):
    """What IMQ has to read first: the base's commits, the ledger, moves of the branch, a person's right."""

    COMPARISON = "comparison"
    LEDGER = "ledger"
    TIP = "tip"
    PUSHES = "pushes"
    PERMISSION = "permission"


@dataclass(frozen=True, slots=True)
class UnknownFact:
    """The fact that an answer needs, and what it is about."""

    fact: HeadFact
    of: str = ""


@dataclass(frozen=True, slots=True)
class NewHead:
    """A head that replaced one with consent, and what is known of it; what is None is not read yet."""

    sha: str
    by: str | None = None
    """Who pushed it, by its webhook; without one, the author whose push it may be."""
    before: str | None = None
    """The head that it replaced, by its webhook; None without one."""
    by_imq: bool = False
    """Whether a webhook or the activity of the branch names IMQ."""
    others: Sequence[Entry] = ()
    """The other entries of the head branch."""
    compared: Comparison | None = None
    tip_landed: bool | None = None
    ledger: Collection[HeadConsent] | None = None
    pushes: Sequence[HeadPush] | None = None
    """The moves of the branch, newest first."""
    permissions: Mapping[str, Permission] = field(default_factory=dict)
    """Those of pushers."""

    def pushers(self, known: Collection[str]) -> tuple[str, ...] | UnknownFact | None:
        """Return who pushed between a known head and this one, newest first; None if one push or pusher is unknown."""
        if self.by is not None and self.before in known:
            return (self.by,)
        if self.pushes is None:
            return UnknownFact(HeadFact.PUSHES)
        return _pushers(self.pushes, self.sha, known)


def _own_update(head: NewHead, entry: Entry, policy: Policy) -> bool | UnknownFact:
    if head.compared is None:
        return UnknownFact(HeadFact.COMPARISON)
    # A head that is bound already was pushed by IMQ's login, and has to be proved.
    before = entry.updated_from if head.sha == entry.head_sha else entry.head_sha
    return is_own_update(before, head.compared, policy)


def _shared_update(head: NewHead, entry: Entry, policy: Policy) -> bool | UnknownFact | Reject:
    other = updated_for(entry, head.sha, head.others) or (most_active(head.others) if head.by_imq else None)
    if other is None and not head.by_imq:
        return False
    if head.compared is None:
        return UnknownFact(HeadFact.COMPARISON)
    tip = _merged_tip(entry.head_sha, head.compared, policy)
    if tip is not None and head.tip_landed is None:
        return UnknownFact(HeadFact.TIP, tip)
    return True if tip is not None and head.tip_landed else Reject(Reason.UPDATED_FOR_ANOTHER, named(other))


def _bot_push(head: NewHead, entry: Entry, policy: Policy) -> bool | UnknownFact:
    if not may_push(entry, head.by, policy):
        return False
    if head.ledger is None:
        return UnknownFact(HeadFact.LEDGER)
    pushers = head.pushers(known_heads(entry, head.ledger))
    if isinstance(pushers, UnknownFact):
        return pushers
    return pushers is not None and all(may_push(entry, each, policy) for each in pushers)


def _waiting_push(head: NewHead, entry: Entry, policy: Policy) -> bool | UnknownFact | Reject:
    if entry.is_ready or policy.on_push.waiting is not NotReadyPushPolicy.BIND:
        return False
    pushers = head.pushers({entry.head_sha})
    if isinstance(pushers, UnknownFact) or pushers is None:
        return pushers or False
    for pusher in pushers:
        if may_push(entry, pusher, policy):
            continue
        if pusher not in head.permissions:
            return UnknownFact(HeadFact.PERMISSION, pusher)
        if may_queue(policy, pusher, head.permissions[pusher]) is not None:
            return Reject(Reason.HEAD_CHANGED, f"pushed by {pusher}, who may not queue")
    return True


def _requeued_push(head: NewHead, _: Entry, policy: Policy) -> bool | UnknownFact:
    if head.by is None or head.before is None or policy.on_push.queued is not PushPolicy.REQUEUE:
        return False
    if head.by not in head.permissions:
        return UnknownFact(HeadFact.PERMISSION, head.by)
    return may_queue(policy, head.by, head.permissions[head.by]) is None


SOURCES: Mapping[ConsentKind, Callable[[NewHead, Entry, Policy], bool | UnknownFact | Reject]] = {
    ConsentKind.OWN_UPDATE: _own_update,
    ConsentKind.SHARED_UPDATE: _shared_update,
    ConsentKind.BOT_PUSH: _bot_push,
    ConsentKind.WAITING_PUSH: _waiting_push,
    ConsentKind.REQUEUED_PUSH: _requeued_push,
}


def may_bind(
    head: NewHead, entry: Entry, policy: Policy, *sources: ConsentKind
) -> ConsentKind | UnknownFact | Reject | None:
    """Return the first of these sources that consents to the head, the fact that is missing, or why the entry leaves.

    None: none of them consents.
    """
    for source in sources:
        found = SOURCES[source](head, entry, policy)
        if found is not False:
            return source if found is True else found
    return None


def with_pushed_head(entry: Entry, head_sha: str) -> Entry:
    """Bind a pushed head. It may contain the base's tip, so none is known that it lacks."""
    return replace(entry, queued_head=head_sha, head_sha=head_sha, head_proved=True, updated_from=None, newer_tip=None)


def with_shared_update(entry: Entry, head_sha: str, now: datetime) -> Entry:
    """Bind an update that brings the entry's own base branch nothing new, as if the entry had been queued with it.

    A run on the former head ends.
    """
    return replace(preempted(entry, now), queued_head=head_sha, head_sha=head_sha, head_proved=True, updated_from=None)


def may_lack_update(entry: Entry) -> bool:
    """Whether the entry may be of a backup, which lacks an update that IMQ made since."""
    idle = entry.status is not EntryStatus.UPDATING and entry.run.merge_requested_at is None
    return entry.needs_refetch and entry.head_proved and idle and not entry.run.has_branch


def with_lost_update(entry: Entry, head_sha: str, now: datetime) -> Entry:
    """Bind an update that this database did not know; a run on the former head ends."""
    return replace(
        preempted(entry, now), head_sha=head_sha, head_proved=True, updated_from=entry.head_sha, newer_tip=None
    )


def is_own_update(updated_from: str | None, comparison: Comparison, policy: Policy) -> bool:
    """Whether the compared head is IMQ's update: its parents are the old head and a commit of the base, in this order.

    The second parent is a commit of the base exactly if it is the merge base of head and base. IMQ verifies this for
    every update, by any sender.
    """
    return _merged_tip(updated_from, comparison, policy) == comparison.merge_base


def dropped_tip(entry: Entry, compared: Comparison) -> str | None:
    """Return the tip of the base that IMQ's update merged, if a push by force took it from the base since.

    Another merge base alone does not show that: the base may have merged the old head. But the base lacks the tip if
    GitHub lists it as the head's own, or if the head contains the whole base and another commit is the base's tip.
    """
    tip = entry.run.base_tip
    if compared.head.sha != entry.head_sha or compared.head.parents != (entry.updated_from, tip):
        return None
    contained = compared.behind == 0 and not compared.head_landed
    return tip if tip in compared.ahead or (contained and tip != compared.base_tip) else None


def _merged_tip(updated_from: str | None, compared: Comparison, policy: Policy) -> str | None:
    """Return the commit that an update merged into the old head, by its parents; None: this is no such update.

    Parents do not prove the content. So where write permission is not enough to queue, GitHub's signature has to prove
    that IMQ made the merge.
    """
    parents = compared.head.parents
    if len(parents) != 2 or parents[0] != updated_from or (needs_signature(policy) and not compared.head.made_by_imq):
        return None
    return parents[1]


def needs_signature(policy: Policy) -> bool:
    """Whether an update of IMQ needs GitHub's signature: if write permission is not enough to queue."""
    return policy.who_may_queue.permission in _MORE_THAN_WRITE


def may_be_updated_silently(repository: Repository, pull: PullRequest) -> bool:
    """Whether parents alone may prove an update for which no webhook came.

    Parents prove which commits were merged, not the content: anyone with push access can craft such a merge. On a
    branch of the repository itself, these people may queue as well. A fork's owner needs no right on the repository.
    So for forks GitHub must have named IMQ as the sender, too.
    """
    return pull.head_repository == repository.full_name


def updated_for(entry: Entry, head_sha: str, others: Iterable[Entry]) -> Entry | None:
    """Return the entry for which IMQ made this head from the entry's own head; None if IMQ made it for none of them.

    If IMQ updated both at once, the entry may have the other one's update as its head, not proved yet.
    """
    before = {entry.head_sha} if entry.updated_from is None else {entry.head_sha, entry.updated_from}
    for other in others:
        requested = other.run.new_head_is_ours and other.head_sha in before and other.run.new_head == head_sha
        if requested or (other.updated_from in before and other.head_sha == head_sha):
            return other
    return None


def may_push(entry: Entry, login: str | None, policy: Policy) -> bool:
    """Return whether this login is a named bot, and opened the pull request itself."""
    return (
        login is not None
        and login.casefold() in policy.on_push.requeue_for
        and login.casefold() == entry.author.casefold()
    )


def known_heads(entry: Entry, ledger: Collection[HeadConsent]) -> frozenset[str]:
    """Return the heads with consent, and IMQ's own update of the last one."""
    own = entry.head_sha, entry.run.new_head if entry.run.new_head_is_ours else None
    return heads_of(ledger) | {head for head in own if head is not None}


def keeps_position(entry: Entry, before: str | None, ledger: Collection[HeadConsent]) -> bool:
    """Return whether a named bot's push costs no run: the entry waits, and the push replaced the head that waits."""
    waits = entry.status is EntryStatus.PENDING and not entry.run.has_begun
    return waits and before is not None and before in known_heads(entry, ledger)


def made_by(login: str, pushes: Sequence[HeadPush], tip: str) -> bool:
    """Return whether this login created the branch that ends with this tip, and no other account pushed to it."""
    found = _pushers(pushes, tip, {NO_BRANCH})
    return found is not None and {each.casefold() for each in found} == {login.casefold()}


def _pushers(pushes: Sequence[HeadPush], head_sha: str, known: Collection[str]) -> tuple[str, ...] | None:
    found, at = dict[str, None](), head_sha
    for push in pushes:
        if push.after != at or push.by is None:
            return None
        found[push.by] = None
        at = push.before
        if at in known:
            return tuple(found)
    return None
