"""Consents to heads, as the ledger has them. Plain data."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class ConsentKind(StrEnum):
    """By what somebody consented to a head."""

    LABEL = "label"
    COMMAND = "command"
    COMMAND_ALONE = "command_alone"
    """`/queue alone`: no train tests the head with others."""
    DELEGATED = "delegated"
    """`/queue` by the author, for whom this person had asked by `/delegate`."""
    CALL = "call"
    """A call of the API."""
    REVERT = "revert"
    """The configuration, which has IMQ revert what broke the base; the person queued that."""
    AUTO_MERGE = "auto_merge"
    """GitHub's button, where the configuration has it queue."""
    OWN_UPDATE = "own_update"
    SHARED_UPDATE = "shared_update"
    BOT_PUSH = "bot_push"
    WAITING_PUSH = "waiting_push"
    REQUEUED_PUSH = "requeued_push"
    IMPORTED = "imported"
    """The entry came with a file of queues from another database."""


@dataclass(frozen=True, slots=True)
class HeadConsent:
    """A consent that counts while its entry does: to this head of its pull request, for this base branch only."""

    head_sha: str
    base_branch: str
    by: str | None
    """None: IMQ updated the branch in the name of the person before."""
    at: datetime
    source: ConsentKind


def heads_of(ledger: Iterable[HeadConsent]) -> frozenset[str]:
    return frozenset(each.head_sha for each in ledger)
