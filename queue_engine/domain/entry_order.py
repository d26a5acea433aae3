"""The precedence of an entry in its queue, and the blockers that exempt it. Plain data."""

from dataclasses import dataclass


@dataclass(frozen=True)
class EntryOrder:
    """The precedence that `Entries.add` and `Entries.reprioritise` store."""

    priority: int = 0
    hotfix: bool = False
    preempts: bool = False
    fixes_base: bool = False
    freeze_exempt: bool = False
