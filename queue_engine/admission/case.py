"""The stored facts of a pull request, loaded once for each event about it; and the request to queue it.

Handlers of webhooks, commands and API calls, and the reconciler, load a case and pass it down. Every transaction
compares the entry with that of the case by its version. A case is loaded again only after such a comparison failed.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from queue_engine.config.model import Policy
from queue_engine.domain.consent import ConsentKind
from queue_engine.domain.facts import PullRequest
from queue_engine.domain.model import Entry, EntryOrder, Repository
from queue_engine.domain.reasons import Reason
from queue_engine.domain.webhooks import RequestRetry
from queue_engine.effects.context import Engine

InOrder = Callable[[str, Policy, EntryOrder], Awaitable[None]]
"""Waits for the earlier requests to join the queue of a base branch, by its policy and the order of the entry.

Raises RequestOrderError.
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A pull request that an event concerns, with its stored entry; None if it is not queued."""

    repository: Repository
    number: int
    entry: Entry | None = None
    delivery: str | None = None
    """The webhook, comment or API call."""
    pull: PullRequest | None = None
    """The pull request with its effective labels, once it was read for this event."""
    governed: tuple[str, Policy] | None = None
    """The base branch whose policy was loaded, and that policy."""
    attempt: RequestRetry = field(default_factory=RequestRetry)
    """Of a request that was stored as a job: since when it counts."""
    in_order: InOrder | None = None
    """None: no earlier request is awaited; see `queue_engine.admission.request_order`."""

    @property
    def policy(self) -> Policy:
        """The policy that `with_policy` loaded."""
        assert self.governed is not None
        return self.governed[1]

    async def with_policy(self, engine: Engine, base_branch: str) -> "Case":
        """Return the case with this branch's policy, loaded once unless the branch changes. Raises GitHubError."""
        if self.governed is not None and self.governed[0] == base_branch:
            return self
        return replace(self, governed=(base_branch, await engine.policies.of(self.repository, base_branch)))

    async def reload(self, engine: Engine) -> "Case":
        """Return the case with its present entry, after the entry changed."""
        return replace(self, entry=(await load_case(engine, self.repository, self.number)).entry)


async def load_case(engine: Engine, repository: Repository, number: int, *, delivery: str | None = None) -> Case:
    """Load the entry of a pull request, for this event."""
    entry = await engine.store.read(lambda tx: tx.entries.find(repository.id, number))
    return Case(repository, number, entry, delivery)


@dataclass(frozen=True, slots=True)
class EnqueueRequest:
    """A request to queue a pull request, by a label, a command, an API call or the reconciler.

    `head_sha` is the head that had the label, and `base_branch` the branch to land on; None when only the reconciler
    found the label, which then means the present ones. `label` was set at `labeled_at`. `by_machine`: automation sent
    the request, not a person.
    """

    case: Case
    by: str | None
    head_sha: str | None
    base_branch: str | None = None
    label: str | None = None
    webhook_is_late: bool = False
    """The label's webhook, which names its head, did not come in time; see `queue_engine.admission.head_consent`."""
    labeled_at: datetime | None = None
    by_machine: bool = False
    arrived_at: datetime | None = None
    """When the label was set whose webhook was lost: the entry gets the position of that time (P3)."""
    source: ConsentKind = ConsentKind.LABEL
    sets_label: str | None = None
    """The trigger label that IMQ sets on behalf of a command or an API call, if the pull request lacks it."""
    may_wait: bool = True
    """Whether the entry may wait for room; otherwise a full queue refuses the request."""
    order: EntryOrder | None = None
    """The precedence that the entry keeps; None: that of its labels."""
    leaves_for: Reason | None = None
    """The reason for which the present entry leaves in the same transaction, if the pull request is queued again."""

    @property
    def trusts_labels(self) -> bool:
        """Whether the requester consents to the present labels; after a push only those count that did before."""
        return self.source not in {ConsentKind.BOT_PUSH, ConsentKind.REQUEUED_PUSH}
