"""Who queued a pull request, and in which order: by the labels and their times, whatever order deliveries come in."""

from dataclasses import replace
from datetime import datetime
from typing import cast

import pytest

from queue_engine.admission.admit import handle_enqueue_request
from queue_engine.admission.case import Case, EnqueueRequest
from queue_engine.admission.throttle import labeling
from queue_engine.config.model import Policy
from queue_engine.core.database.database import Database
from queue_engine.domain.departure import DequeueReason
from queue_engine.domain.facts import LabelEvent, Permission, PullRequest, Snapshot
from queue_engine.domain.model import EntryOrder
from queue_engine.domain.port import GitHub as Port
from queue_engine.domain.reasons import Reason
from queue_engine.domain.webhooks import RequestRetry
from queue_engine.effects.context import Change, Engine
from queue_engine.effects.record import dequeue
from queue_engine.store import Store
from queue_engine.store.outbox.items import OutboxKind
from tests.support.policies import StaticPolicies
from tests.unit.queue_engine.engine_setup import Clock, GitHub
from tests.unit.queue_engine.examples import HOUR, MINUTE, NOW, REPOSITORY, SECOND, pull

LABELS = ("land", "ship")


class LabeledGitHub(GitHub):
    """Every pull request carries both trigger labels; `last` says who set each of them last."""

    def __init__(self) -> None:
        super().__init__()
        self.last: dict[str, LabelEvent] = {}
        self.comments: int | None = 0
        self.right = Permission.WRITE

    async def pull_request(self, *asked: object) -> PullRequest:
        number = cast(int, asked[1])
        shown = pull(number=number, head_sha=f"head-{number}", labels=frozenset(LABELS), comments=self.comments)
        shown = replace(shown, updated_at=max((one.at for one in self.last.values()), default=NOW))
        return await self._answer("pull", shown)

    async def snapshot(self, *asked: object, login: str | None = None, head_sha: str | None = None) -> Snapshot:
        return Snapshot(await self.pull_request(*asked), None if login is None else self.right)

    async def last_labeled_event(self, _repository: object, _number: int, label: str) -> LabelEvent | None:
        return await self._answer("labeling", self.last.get(label))


@pytest.fixture
def github() -> LabeledGitHub:
    return LabeledGitHub()


@pytest.fixture
def engine(sqlite_database: Database, github: LabeledGitHub) -> Engine:
    policies = StaticPolicies(Policy(trigger_labels=LABELS))
    return Engine(Store(sqlite_database), cast(Port, github), Clock(), policies, random=lambda: 0.5, owner="w")


async def queued(engine: Engine) -> list[tuple[int, str]]:
    """The pull requests that are queued, in their order, and who queued each."""
    async with engine.store.reading() as tx:
        return [(entry.number, entry.queued_by) for entry in await tx.entries.of_repository(REPOSITORY.id)]


async def refused(engine: Engine, number: int) -> Reason | None:
    async with engine.store.reading() as tx:
        refusal = await tx.rejections.find(REPOSITORY.id, number)
    return None if refusal is None else refusal.reason


@pytest.mark.parametrize(("land", "ship", "by"), [(0, 1, "sue"), (1, 0, "lee")])
async def test_label_that_was_set_last_names_who_queued(
    engine: Engine, github: LabeledGitHub, land: int, ship: int, by: str
) -> None:
    """P4: the reconciler finds two labels, and the newer one is the consent that counts."""
    github.last = {"land": LabelEvent("lee", NOW + land * SECOND), "ship": LabelEvent("sue", NOW + ship * SECOND)}
    await handle_enqueue_request(engine, EnqueueRequest(Case(REPOSITORY, 1), None, None))
    assert await queued(engine) == [(1, by)]


@pytest.mark.parametrize(
    ("labeled_at", "reason"),
    [
        (NOW - SECOND, None),
        (NOW, Reason.HEAD_CHANGED),
        (NOW + SECOND, Reason.HEAD_CHANGED),
        (None, Reason.HEAD_CHANGED),
    ],
)
async def test_label_on_a_former_head_is_refused_unless_it_was_set_again_since(
    engine: Engine, github: LabeledGitHub, labeled_at: datetime | None, reason: Reason | None
) -> None:
    """P4: no person consented to the present head; but an older delivery that comes late refuses no newer label."""
    github.last = {"land": LabelEvent("lee", NOW - MINUTE), "ship": LabelEvent("sue", NOW)}
    await handle_enqueue_request(engine, EnqueueRequest(Case(REPOSITORY, 1), "max", "head-0", labeled_at=labeled_at))
    assert (await queued(engine), await refused(engine, 1)) == ([], reason)


async def test_label_waits_for_those_before_it_when_its_facts_are_read_first(engine: Engine) -> None:
    """P3: facts are read side by side, places are given in the order of the labels."""

    async def before(branch: str, policy: Policy, order: EntryOrder) -> None:
        assert (branch, await queued(engine)) == ("main", [])
        await handle_enqueue_request(engine, EnqueueRequest(Case(REPOSITORY, 1), "max", "head-1"))

    await handle_enqueue_request(engine, EnqueueRequest(Case(REPOSITORY, 2, in_order=before), "max", "head-2"))
    assert await queued(engine) == [(1, "max"), (2, "max")]


async def test_label_whose_answer_a_failure_delayed_keeps_its_place(engine: Engine) -> None:
    """P3: it is queued as if it had been judged when it came."""
    await handle_enqueue_request(engine, EnqueueRequest(Case(REPOSITORY, 2), "max", "head-2"))
    await handle_enqueue_request(engine, EnqueueRequest(Case(REPOSITORY, 3), "max", "head-3", arrived_at=NOW + MINUTE))
    await handle_enqueue_request(engine, EnqueueRequest(Case(REPOSITORY, 1), "max", "head-1", arrived_at=NOW - MINUTE))
    assert [number for number, _ in await queued(engine)] == [1, 2, 3]


async def test_label_that_waited_for_a_worker_keeps_its_place_before_a_later_one_that_was_tried_twice(
    engine: Engine,
) -> None:
    """P3: both count from the instant at which their webhooks were stored; none comes before an entry for that."""
    for number, stored in ((1, NOW - HOUR), (2, NOW - 2 * HOUR)):
        case = Case(REPOSITORY, number, attempt=RequestRetry(stored_at=stored))
        request = EnqueueRequest(case, "max", f"head-{number}")
        await handle_enqueue_request(engine, request)
    late = EnqueueRequest(Case(REPOSITORY, 3), "max", "head-3", arrived_at=NOW - MINUTE)
    await handle_enqueue_request(engine, late)
    assert [number for number, _ in await queued(engine)] == [1, 2, 3]


@pytest.mark.parametrize(("comments", "searched"), [(0, False), (2, True), (None, True)])
async def test_comment_of_an_earlier_database_is_searched_for_where_one_may_exist(
    engine: Engine, github: LabeledGitHub, comments: int | None, searched: bool
) -> None:
    """P6: GitHub's GraphQL API may tell no count of comments."""
    github.comments = comments
    await handle_enqueue_request(engine, EnqueueRequest(Case(REPOSITORY, 1), "max", "head-1"))
    async with engine.store.transaction() as tx:
        item = await tx.outbox.claim(owner="w", now=NOW + MINUTE, lease=MINUTE)
    assert item is not None
    assert (item.kind, item.maybe_created) == (OutboxKind.COMMENT, searched)


@pytest.mark.parametrize(
    ("labeled_at", "queues"), [(NOW - SECOND, False), (NOW, False), (None, False), (NOW + SECOND, True)]
)
async def test_label_that_is_older_than_the_dequeue_queues_nothing(
    engine: Engine, labeled_at: datetime | None, queues: bool
) -> None:
    """P4: its removal may be undelivered for hours. A newer label is consent, and is not removed any more."""
    await handle_enqueue_request(engine, EnqueueRequest(Case(REPOSITORY, 1), "max", "head-1"))
    async with engine.store.transaction() as tx:
        (entry,) = await tx.entries.of_repository(REPOSITORY.id)
        await dequeue(Change(tx, NOW), entry, DequeueReason(Reason.CONFLICT), Policy(trigger_labels=LABELS))
    request = EnqueueRequest(Case(REPOSITORY, 1), "sue", "head-1", label="Land", labeled_at=labeled_at)
    await handle_enqueue_request(engine, request)
    assert await queued(engine) == ([(1, "sue")] if queues else [])
    async with engine.store.reading() as tx:
        assert await tx.outbox.wanted_labels(REPOSITORY.id, 1) == {"land": queues, "ship": False}


@pytest.mark.parametrize(
    ("right", "head", "times"), [(Permission.TRIAGE, "head-1", 1), (Permission.WRITE, "head-0", None)]
)
async def test_label_of_a_person_without_the_right_is_counted(
    engine: Engine, github: LabeledGitHub, right: Permission, head: str, times: int | None
) -> None:
    """P7: what is the fault of the change is not counted against who set the label."""
    github.right = right
    await handle_enqueue_request(engine, EnqueueRequest(Case(REPOSITORY, 1), "tria", head, labeled_at=NOW + HOUR))
    async with engine.store.reading() as tx:
        throttle = await tx.throttles.find(REPOSITORY.id, labeling("tria"))
    assert await queued(engine) == []
    assert (None if throttle is None else throttle.times) == times
