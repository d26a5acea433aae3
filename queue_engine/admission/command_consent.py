"""P4: find the head and base branch that a command consents to. GitHub does not name them.

A command consents to the head at the time of its comment. GitHub's times have whole seconds, and deliveries come in any
order: a push of the same second, or a push whose webhook comes after that of the command, may be newer. Then the
command consents to nothing, and an entry that it queued already is dequeued when the push arrives. The same holds for a
changed base branch: the author of a pull request may change it without any permission on the repository.
"""

from collections.abc import Iterable
from datetime import datetime

from queue_engine.domain.known_facts import KEPT, Consent, Fact, Known, PullRequestState, of_pull
from queue_engine.domain.model import Repository
from queue_engine.domain.reasons import Reason
from queue_engine.effects.context import Engine
from queue_engine.store import Transaction


def changed_since(known: Iterable[Known], head_sha: str, commanded_at: datetime) -> Reason | None:
    """Find a change possibly newer than the command: a push of this head, another base branch, a close, a draft."""
    for one in known:
        state = one.statement
        if not isinstance(state, PullRequestState) or max(state.updated_at, one.at) < commanded_at:
            continue
        if state.base_changed:
            return Reason.BASE_CHANGED
        if state.before is not None and state.head == head_sha:
            return Reason.HEAD_CHANGED
        if state.updated_at > commanded_at and not state.merged and (state.draft or not state.open):
            return Reason.DRAFT if state.open else Reason.CLOSED
    return None


async def consents(engine: Engine, repository: Repository, number: int, head_sha: str, commanded_at: datetime) -> bool:
    """Return whether a command of that time consents to this head, by known pushes; stores this consent."""
    async with engine.change() as change:
        if changed_since(await _known(change.tx, repository, number, change.now), head_sha, commanded_at) is not None:
            return False
        consent = Fact(subject=of_pull(number), statement=Consent(kind="commanded", head=head_sha, at=commanded_at))
        await change.tx.known.record(repository.id, [consent], change.now)
    return True


async def is_commands(tx: Transaction, repository: Repository, number: int, head: str, now: datetime) -> bool:
    """Return whether a recent command consented to this head.

    Then IMQ judges each push of this head, see `queue_engine.rules.consent_changes.changed_since_command`.
    """
    known = await _known(tx, repository, number, now)
    return any(isinstance(one.statement, Consent) and one.statement.head == head for one in known)


async def _known(tx: Transaction, repository: Repository, number: int, now: datetime) -> list[Known]:
    subject = of_pull(number)
    return (await tx.known.about(repository.id, [subject], since=now - KEPT)).get(subject, [])
