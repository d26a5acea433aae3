"""The values with which a pull request is added to a queue."""

from datetime import datetime
from typing import Any, Required, TypedDict


class NewEntry(TypedDict, total=False):
    """The values of a new entry, for `Entries.add`. By default it has no precedence over others."""

    queue_id: Required[int]
    number: Required[int]
    title: Required[str]
    author: Required[str]
    queued_by: Required[str]
    queued_by_id: int | None
    queued_head: Required[str]
    """The head with consent."""
    enqueued_at: Required[datetime]
    priority: int
    hotfix: bool
    preempts: bool
    fixes_base: bool
    freeze_exempt: bool
    trusted_labels: list[str]
    newer_tip: str | None
    trace: str | None
    delivery: str | None
    shared_head: str | None
    head_branch: str | None
    own_check_required: bool
    unmet: list[list[Any]] | None
    """What an entry lacks that is not ready, as `UnmetRequirement.as_data`."""
    read_at: datetime | None
