"""The request to queue a pull request."""

from dataclasses import dataclass
from datetime import datetime

from queue_engine.admission.case import Case
from queue_engine.domain.consent import ConsentKind
from queue_engine.domain.model import EntryOrder
from queue_engine.domain.reasons import Reason


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
    """The label's webhook, which names its head, did not come in time; see `queue_engine.admission.lost_webhooks`."""
    labeled_at: datetime | None = None
    by_machine: bool = False
    arrived_at: datetime | None = None
    """When the request was made, if long ago, as after a failure, or for a label whose webhook was lost: the entry gets
    the position of that time (P3)."""
    stored_at: datetime | None = None
    """When the label's webhook was stored; None where none was, so that the request counts from now."""
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
