"""The precedence of an entry in its queue, and what blocks it nevertheless. Plain data."""

from dataclasses import dataclass


@dataclass(frozen=True)
class EntryOrder:
    """What `Entries.add` and `Entries.reprioritise` take beside the pull request itself."""

    priority: int = 0
    hotfix: bool = False
    preempts: bool = False
    fixes_base: bool = False
    freeze_exempt: bool = False
