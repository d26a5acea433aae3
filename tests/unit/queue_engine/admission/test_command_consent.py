"""P4: which head and base branch a command consents to, and what becomes of one that was overtaken."""

from datetime import datetime
from typing import Any

import pytest

from queue_engine.admission.head_consent import changed_since, consents, is_commands
from queue_engine.admission.request_order import RequestOrder
from queue_engine.core.database.database import Database
from queue_engine.domain.facts import Snapshot
from queue_engine.domain.known_facts import KEPT, Consent, Fact, Known, PullRequestState, of_pull
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.reasons import Reason
from queue_engine.handlers.pull_request_events import PullRequestChanges
from queue_engine.handlers.shadow_mode import ShadowHandler
from queue_engine.rules.consent import CHANGED_SINCE_COMMAND
from queue_engine.store import Store
from queue_engine.store.outbox.items import OutboxKind
from tests.support.webhooks import a_webhook
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import HOUR, NOW, POLICY, REPOSITORY, SECOND, pull

AFTER, BEFORE = NOW + SECOND, NOW - SECOND
COMMAND = Consent(kind="commanded", head_sha="head-1", at=NOW)


@pytest.fixture
def scene(sqlite_database: Database) -> Setup:
    return Setup(Store(sqlite_database))


def state_of(
    head: str = "head-1", *, at: datetime = NOW, before: str | None = "head-0", base_changed: bool = False
) -> PullRequestState:
    """A pull request as a webhook shows it: of a push, unless `before` is None."""
    state: dict[str, Any] = {"open": True, "merged": False, "draft": False, "labels": (), "title": "Change 1"}
    return PullRequestState(
        updated_at=at, head_sha=head, base="main", before=before, base_changed=base_changed, **state
    )


@pytest.mark.parametrize(
    ("fact", "received_at", "newer"),
    [
        (state_of(), NOW, Reason.HEAD_CHANGED),
        (state_of(at=BEFORE), BEFORE, None),
        (state_of(at=AFTER), BEFORE, Reason.HEAD_CHANGED),
        (state_of(at=BEFORE), AFTER, Reason.HEAD_CHANGED),
        (state_of("head-2"), NOW, None),
        (state_of(before=None), NOW, None),
        (state_of(before=None, base_changed=True), NOW, Reason.BASE_CHANGED),
        (state_of(before=None, base_changed=True, at=BEFORE), BEFORE, None),
        (COMMAND, NOW, None),
    ],
)
def test_change_of_the_commands_second_or_received_after_it_may_be_newer(
    fact: PullRequestState | Consent, received_at: datetime, newer: Reason | None
) -> None:
    """GitHub's times have whole seconds, and deliveries come in any order."""
    assert changed_since([Known(fact, received_at)], "head-1", NOW) is newer


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
    state = state_of(at=at, before=None).model_copy(update=changes)
    assert changed_since([Known(state, AFTER)], "head-1", NOW) is reason


def test_one_push_that_may_be_newer_is_enough() -> None:
    """Older pushes and labels beside it excuse nothing."""
    known = [Known(state_of(at=BEFORE), BEFORE), Known(state_of(), NOW), Known(state_of(before=None), NOW)]
    assert changed_since(known, "head-1", NOW) is Reason.HEAD_CHANGED


async def know(scene: Setup, fact: PullRequestState, *, number: int = 1, at: datetime = NOW) -> None:
    async with scene.store.transaction() as tx:
        await tx.known.record(REPOSITORY.id, [Fact(subject=of_pull(number), statement=fact)], at)


async def commanded(scene: Setup) -> list[Consent]:
    """The commands on pull request 1 that were taken for consent."""
    async with scene.store.reading() as tx:
        known = await tx.known.about(REPOSITORY.id, [of_pull(1)], since=NOW - HOUR)
    return [one.statement for one in known.get(of_pull(1), ()) if isinstance(one.statement, Consent)]


async def test_command_consents_to_a_head_without_a_later_push(scene: Setup) -> None:
    """IMQ keeps the consent for a push that a webhook reports later. A push to another pull request does not matter."""
    await know(scene, state_of(), number=2)
    await know(scene, state_of(at=NOW - HOUR), at=NOW - KEPT)
    assert await consents(scene.engine, REPOSITORY, Snapshot(pull()), NOW)
    assert await commanded(scene) == [COMMAND]


async def test_command_does_not_consent_to_a_head_that_may_be_newer(scene: Setup) -> None:
    """And nothing is kept of it."""
    await know(scene, state_of())
    assert not await consents(scene.engine, REPOSITORY, Snapshot(pull()), NOW)
    assert await commanded(scene) == []


async def test_head_of_a_command_is_known_for_a_quarter_of_an_hour(scene: Setup) -> None:
    """IMQ reads a push to this head that a webhook reports meanwhile, but no push to another or to a labeled head."""
    assert await consents(scene.engine, REPOSITORY, Snapshot(pull()), NOW)
    async with scene.store.transaction() as tx:
        await tx.known.record(REPOSITORY.id, [Fact(subject=of_pull(2), statement=Consent(at=NOW, by="mona"))], NOW)
    async with scene.store.reading() as tx:
        assert await is_commands(tx, REPOSITORY, 1, "head-1", NOW)
        assert not await is_commands(tx, REPOSITORY, 1, "head-2", NOW)
        assert not await is_commands(tx, REPOSITORY, 2, "head-1", NOW)
        assert not await is_commands(tx, REPOSITORY, 1, "head-1", NOW + KEPT + SECOND)


async def after_push(scene: Setup) -> Entry | None:
    """The entry of pull request 1 after a webhook reported a push to its queued head."""
    webhook = a_webhook("consent", action="synchronize", delivery="push")
    scene.github.pull = pull(reported=(COMMAND, state_of()), labels=frozenset({POLICY.trigger_label}))
    order = RequestOrder(scene.engine)
    await PullRequestChanges(scene.engine, ShadowHandler(scene.engine), order).changed(webhook)
    async with scene.store.reading() as tx:
        return await tx.entries.find(REPOSITORY.id, 1)


async def test_push_that_is_reported_after_the_command_dequeues_and_says_why(scene: Setup) -> None:
    """The command had queued a head that its author may not have seen."""
    await scene.front()
    assert await consents(scene.engine, REPOSITORY, Snapshot(pull()), NOW)
    assert await after_push(scene) is None
    async with scene.store.reading() as tx:
        event = (await tx.timeline.of_pull_request(REPOSITORY.id, 1))[-1]
        notice = await tx.outbox.wanted(OutboxKind.COMMENT, REPOSITORY.id, 1)
    detail = CHANGED_SINCE_COMMAND[Reason.HEAD_CHANGED]
    assert (event.reason, event.data["detail"], event.delivery) == (Reason.HEAD_CHANGED, detail, "push")
    assert notice is not None
    assert (notice.reason, notice.detail, "ada" in notice.people) == (Reason.HEAD_CHANGED, detail, True)


async def test_push_to_a_head_that_no_command_queued_costs_no_request(scene: Setup) -> None:
    """The label's webhook named that head."""
    await scene.front()
    assert await after_push(scene) is not None
    assert "pull" not in scene.github.asked


async def test_push_that_is_reported_while_github_merges_is_left_to_the_pass(scene: Setup) -> None:
    """Only the pass knows what became of the merge."""
    await scene.front(status=EntryStatus.READY, merge_requested_at=NOW)
    assert await consents(scene.engine, REPOSITORY, Snapshot(pull()), NOW)
    assert await after_push(scene) is not None
