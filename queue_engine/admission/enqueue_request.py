"""The request that a pull request be queued."""

from dataclasses import dataclass
from datetime import datetime

from queue_engine.admission.case import Case
from queue_engine.domain.model import Entry, Repository
from queue_engine.domain.reasons import Reason


@dataclass(frozen=True, slots=True)
class EnqueueRequest:
    """Somebody asks for a pull request to be queued.

    `head_sha` is the head that the label was set on, and `base_branch` the branch to land on; None when only the sweep
    found the label, which then stands for the present ones. `label` was set at `labelled_at`. `by_machine` tells
    automation from a person who tries again.
    With `gives_consent` the requester vouches for the present labels. Without it nobody does: somebody pushed to a
    queued pull request, and only the labels that were trusted before count.
    """

    case: Case
    by: str | None
    head_sha: str | None
    base_branch: str | None = None
    label: str | None = None
    webhook_is_late: bool = False
    """The label's webhook, which names its head, was waited for in vain; see `queue_engine.admission.lost_webhooks`."""
    labelled_at: datetime | None = None
    by_machine: bool = False
    arrived_at: datetime | None = None
    """When it was asked for, if that is known to be long ago, as after a failure, or of a label whose webhook was lost:
    it is queued as if it had come then (P3)."""
    gives_consent: bool = True
    sets_label: str | None = None
    """The label that the pull request lacks, where a command or a call asks in its place: IMQ sets it."""
    may_wait: bool = True
    """Whether it waits for room in a full queue; else a full queue refuses it."""
    leaves_for: Reason | None = None
    """Why the present entry leaves its queue in the same transaction, if the pull request is queued again."""

    @property
    def repository(self) -> Repository:
        return self.case.repository

    @property
    def number(self) -> int:
        return self.case.number

    @property
    def delivery(self) -> str | None:
        return self.case.delivery

    @property
    def leaving(self) -> Entry | None:
        return None if self.leaves_for is None else self.case.entry
