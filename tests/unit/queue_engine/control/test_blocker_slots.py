"""The slots of a queue under any sequence of requests and findings, against a set that a person would keep by hand."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from queue_engine.config.model import Policy
from queue_engine.control import pauses
from queue_engine.core.database.database import Database
from queue_engine.domain.blocker import BlockerNotices
from queue_engine.domain.model import Entry, Queue, RedBase, Stall
from queue_engine.domain.reasons import Reason
from queue_engine.effects import record
from queue_engine.effects.context import Change
from queue_engine.migrations import migrate
from queue_engine.rules.blockers import blockers_of
from queue_engine.store import Store, Transaction
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import HOUR, NOW, POLICY, REPOSITORY
from tests.unit.queue_engine.queues import WINDOW, entries, front_of, second, stored, take

Slots = frozenset[str]
Step = tuple[Callable[[Transaction, Queue], Awaitable[object]], Callable[[Slots], Slots]]

BY_REQUEST = frozenset({"invariant_broken", "tree_mismatch", "paused_by_hand", "frozen"})
UNTIL_RESUMED = BY_REQUEST - {"frozen"}
RED = RedBase("ci", "base-1", NOW, 0, NOW + HOUR)


def resumed(slots: Slots) -> Slots:
    """Every pause and a red base are lifted; the freeze only where there was no pause."""
    return slots - {"base_red"} - (UNTIL_RESUMED if slots & UNTIL_RESUMED else {"frozen"})


STEPS: dict[str, Step] = {
    "pause": (
        lambda t, q: pauses.pause(Change(t, NOW), REPOSITORY, "main", by="rhea"),
        lambda s: s | {"paused_by_hand"},
    ),
    "freeze": (
        lambda t, q: pauses.freeze(Change(t, NOW), REPOSITORY, "main", by="rhea", until=NOW + HOUR),
        lambda s: s | {"frozen"},
    ),
    "resume": (lambda t, q: pauses.resume(Change(t, NOW), REPOSITORY, "main", by="rhea"), resumed),
    "unfreeze": (lambda t, q: pauses.unfreeze(Change(t, NOW), REPOSITORY, "main", by="rhea"), lambda s: s - {"frozen"}),
    "mismatch": (
        lambda t, q: record.pause(Change(t, NOW), q, Reason.TREE_MISMATCH, "why"),
        lambda s: s | {"tree_mismatch"},
    ),
    "checks of the tip passed": (
        lambda t, q: t.pauses.lift(q.id, Reason.TREE_MISMATCH, now=NOW),
        lambda s: s - {"tree_mismatch"},
    ),
    "broken": (
        lambda t, q: record.pause(Change(t, NOW), q, Reason.INVARIANT_BROKEN, "why"),
        lambda s: s | {"invariant_broken"},
    ),
    "red": (lambda t, q: t.red_bases.note(q.id, RED), lambda s: s | {"base_red"}),
    "green": (lambda t, q: t.red_bases.note(q.id, None), lambda s: s - {"base_red"}),
    "stall": (lambda t, q: t.stalls.note(q.id, Stall(NOW, "h", "ci")), lambda s: s | {"checks_not_starting"}),
    "start": (lambda t, q: t.stalls.note(q.id, None), lambda s: s - {"checks_not_starting"}),
}
POLICIES: tuple[tuple[Policy, frozenset[str]], ...] = (
    (POLICY, frozenset()),
    (WINDOW, frozenset({"configured freeze"})),
    (replace(POLICY, fault="line 1"), frozenset({"misconfigured"})),
)


def may_land(entry: Entry, slots: Slots) -> bool:
    """Whether every slot exempts this entry, which has not begun."""
    exempt = ({"frozen", "configured freeze"} if entry.freeze_exempt else set()) | (
        {"base_red"} if entry.fixes_base else set()
    )
    return slots <= exempt


async def check(scene: Setup, queue: Queue, slots: Slots) -> None:
    """The queue has exactly these slots, and only an entry that all of them exempt may land."""
    line, present = await entries(scene, queue), await stored(scene, queue)
    for policy, derived in POLICIES:
        blockers = blockers_of(present, policy, NOW)
        found = [
            "configured freeze" if blocker.reason is Reason.FROZEN and not blocker.recorded else blocker.reason.value
            for blocker in blockers
        ]
        assert sorted(found) == sorted(slots | derived), "each slot once"
        may = next((entry.number for entry in line if may_land(entry, slots | derived)), None)
        assert front_of(line, blockers) == may


async def check_pass(scene: Setup, queue: Queue, slots: Slots) -> None:
    """A pass works on the same entry and announces all blockers; before an entry has begun, no check can be missing."""
    slots -= {"checks_not_starting"}
    taken = await take(scene, queue)
    if isinstance(taken, int):
        assert may_land((await entries(scene, queue))[taken - 1], slots)
    announced = BlockerNotices.from_json((await stored(scene, queue)).announced)
    assert {each.reason.value for each in (announced.blockers if announced else ())} == slots


async def play(scene: Setup, queue: Queue, names: list[str]) -> None:
    """These steps, one after the other, on a queue that nothing blocks."""
    slots: Slots = frozenset()
    async with scene.store.transaction() as tx:
        await tx.pauses.lift(queue.id, *map(Reason, BY_REQUEST), now=NOW)
        await tx.red_bases.note(queue.id, None)
        await tx.stalls.note(queue.id, None)
    for name in names:
        do, then = STEPS[name]
        async with scene.store.transaction() as tx:
            await do(tx, await stored(scene, queue))
        slots = then(slots)
        await check(scene, queue, slots)
    await check_pass(scene, queue, slots)


async def begin(url: str) -> tuple[Setup, Queue]:
    """A queue in which each entry is exempt from something else."""
    database = Database(url)
    await migrate(database)
    scene = Setup(Store(database))
    queue = await scene.front()
    await second(scene, queue, 2, freeze_exempt=True)
    await second(scene, queue, 3, fixes_base=True)
    await second(scene, queue, 4, freeze_exempt=True, fixes_base=True)
    return scene, queue


def test_slots_are_set_and_lifted_by_themselves_and_all_of_them_hold(tmp_path: Path) -> None:
    """P1: nothing lands that one slot forbids, whatever was set and lifted before, and in whatever order."""
    with asyncio.Runner() as runner:
        scene, queue = runner.run(begin(f"sqlite:///{tmp_path / 'imq.db'}"))

        @settings(max_examples=15, database=None)
        @given(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=10))
        def sequences(names: list[str]) -> None:
            runner.run(play(scene, queue, names))

        sequences()
        runner.run(scene.store.database.close())
