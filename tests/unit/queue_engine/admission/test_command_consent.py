"""P4: which head and base branch a command consents to, and what becomes of one that was overtaken."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from queue_engine.admission.case import load_case
from queue_engine.admission.command_consent import DETAIL, changed_since, consents, overtaken
from queue_engine.core.database.database import Database
from queue_engine.domain.known_facts import KEPT, CommandConsent, Fact, Known, PullRequestState, of_pull
from queue_engine.domain.reasons import Reason
from queue_engine.domain.webhook_event import WebhookEvent, WebhookKind
from queue_engine.store import Store
from queue_engine.store.outbox.outbox import OutboxKind
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import HOUR, NOW, REPOSITORY, SECOND

AFTER, BEFORE = NOW + SECOND, NOW - SECOND


@pytest.fixture
def scene(sqlite_database: Database) -> Setup:
    return Setup(Store(sqlite_database))


def told(
    head: str = "head-1", *, at: datetime = NOW, before: str | None = "head-0", base_changed: bool = False
) -> PullRequestState:
    """A pull request as a webhook shows it: of a push, unless `before` is None."""
    state: dict[str, Any] = {"open": True, "merged": False, "draft": False, "labels": (), "title": "Change 1"}
    return PullRequestState(updated_at=at, head=head, base="main", before=before, base_changed=base_changed, **state)


@pytest.mark.parametrize(
    ("fact", "told_at", "newer"),
    [
        (told(), NOW, Reason.HEAD_CHANGED),
        (told(at=BEFORE), BEFORE, None),
        (told(at=AFTER), BEFORE, Reason.HEAD_CHANGED),
        (told(at=BEFORE), AFTER, Reason.HEAD_CHANGED),
        (told("head-2"), NOW, None),
        (told(before=None), NOW, None),
        (told(before=None, base_changed=True), NOW, Reason.BASE_CHANGED),
        (told(before=None, base_changed=True, at=BEFORE), BEFORE, None),
        (CommandConsent(head="head-1", at=NOW), NOW, None),
    ],
)
def test_change_of_the_commands_second_or_told_after_it_may_be_newer(
    fact: PullRequestState | CommandConsent, told_at: datetime, newer: Reason | None
) -> None:
    """GitHub's times have whole seconds, and deliveries come in any order."""
    assert changed_since([Known(fact, told_at)], "head-1", NOW) is newer


@pytest.mark.parametrize(
    ("changes", "at", "reason"),
    [
        ({"open": False}, AFTER, Reason.CLOSED),
        ({"draft": True}, AFTER, Reason.DRAFT),
        ({"open": False, "draft": True}, AFTER, Reason.CLOSED),
        ({"open": False, "merged": True}, AFTER, None),
        ({"open": False}, NOW, None),
        ({"draft": True}, BEFORE, None),
        ({}, AFTER, None),
    ],
)
def test_close_or_draft_after_the_command_withdraws_it(
    changes: dict[str, Any], at: datetime, reason: Reason | None
) -> None:
    """P4: reopened, or ready again, it needs a new command. A command to a closed one or a draft is refused anyway."""
    state = told(at=at, before=None).model_copy(update=changes)
    assert changed_since([Known(state, AFTER)], "head-1", NOW) is reason


def test_one_push_that_may_be_newer_is_enough() -> None:
    """Older pushes and labels beside it excuse nothing."""
    known = [Known(told(at=BEFORE), BEFORE), Known(told(), NOW), Known(told(before=None), NOW)]
    assert changed_since(known, "head-1", NOW) is Reason.HEAD_CHANGED


async def know(scene: Setup, fact: PullRequestState, *, number: int = 1, at: datetime = NOW) -> None:
    async with scene.store.transaction() as tx:
        await tx.known.record(REPOSITORY.id, [Fact(subject=of_pull(number), told=fact)], at)


async def commanded(scene: Setup) -> list[CommandConsent]:
    """The commands on pull request 1 that were taken for consent."""
    async with scene.store.reading() as tx:
        known = await tx.known.about(REPOSITORY.id, [of_pull(1)], since=NOW - HOUR)
    return [one.told for one in known.get(of_pull(1), ()) if isinstance(one.told, CommandConsent)]


async def test_command_consents_to_the_head_that_nobody_pushed_since(scene: Setup) -> None:
    """The consent is kept for a push that is told later. A push to another pull request does not matter."""
    await know(scene, told(), number=2)
    await know(scene, told(at=NOW - HOUR), at=NOW - KEPT)
    assert await consents(scene.engine, REPOSITORY, 1, "head-1", NOW)
    assert await commanded(scene) == [CommandConsent(head="head-1", at=NOW)]


async def test_command_does_not_consent_to_a_head_that_may_be_newer(scene: Setup) -> None:
    """And nothing is kept of it."""
    await know(scene, told())
    assert not await consents(scene.engine, REPOSITORY, 1, "head-1", NOW)
    assert await commanded(scene) == []


async def is_overtaken(scene: Setup) -> bool:
    """Whether a push to `head-1` that GitHub tells now overtook the command of this second, which came first."""
    await know(scene, told())
    hint = WebhookEvent(
        kind=WebhookKind.CONSENT,
        delivery="push",
        installation_id=REPOSITORY.installation_id,
        repository_id=REPOSITORY.id,
        number=1,
        head_sha="head-1",
    )
    return await overtaken(scene.engine, await load_case(scene.engine, REPOSITORY, 1, delivery=hint.delivery), hint)


async def left(scene: Setup) -> tuple[Reason | None, str | None, str | None]:
    """Why pull request 1 left, by the timeline and its comment, and the delivery that it left by."""
    async with scene.store.reading() as tx:
        events = await tx.timeline.of_pull_request(REPOSITORY.id, 1)
        notice = await tx.outbox.wanted(OutboxKind.COMMENT, REPOSITORY.id, 1)
    event = events[-1]
    assert (notice and notice.reason) == event.reason
    return event.reason, (event.data or {}).get("detail"), event.delivery


async def test_push_that_overtook_the_command_dequeues_and_says_why(scene: Setup) -> None:
    """The command had queued a head that its author may not have seen."""
    queue = await scene.front()
    assert await consents(scene.engine, REPOSITORY, 1, "head-1", NOW)
    assert await is_overtaken(scene)
    async with scene.store.reading() as tx:
        assert await tx.entries.of_queue(queue.id) == ()
        notice = await tx.outbox.wanted(OutboxKind.COMMENT, REPOSITORY.id, 1)
    assert await left(scene) == (Reason.HEAD_CHANGED, DETAIL, "push")
    assert notice is not None
    assert "ada" in notice.people, "its author has to act"


@pytest.mark.parametrize(
    ("changes", "commanded_head", "at"),
    [
        ({}, "head-1", timedelta(seconds=1)),
        ({}, "head-2", timedelta(0)),
        ({"queued_head": "head-2"}, "head-1", timedelta(0)),
        ({"merge_requested_at": NOW}, "head-1", timedelta(0)),
    ],
)
async def test_push_dequeues_nothing_that_no_overtaken_command_queued(
    scene: Setup, changes: dict[str, Any], commanded_head: str, at: timedelta
) -> None:
    """A command typed later, one for another head, another head that is queued since, or a merge in doubt."""
    queue = await scene.front(**changes)
    assert await consents(scene.engine, REPOSITORY, 1, commanded_head, NOW + at)
    assert not await is_overtaken(scene)
    async with scene.store.reading() as tx:
        assert len(await tx.entries.of_queue(queue.id)) == 1
