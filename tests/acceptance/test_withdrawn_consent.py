"""P4: consent that somebody withdrew is gone, also where IMQ reads the pull request only after the act was undone."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from github_emulator import Fault
from tests.acceptance.choosing import configure
from tests.acceptance.world import CI_TIME, LABEL, World

SECOND = timedelta(seconds=1)
PULL = "/repos/{owner}/{repo}/pulls/{number}"

Act = Callable[[Any], object]


def take_back(pull: Any) -> None:
    """Push the former head by force."""
    record, accounts = pull.record.repository, pull.domain.accounts
    former = record.git.must(pull.head_sha).parents[0]
    pull.domain.refs.update(record, pull.record.head_branch, former, actor=accounts.actor("hubot"), force=True)


WITHDRAWALS: dict[str, tuple[Act, Act, list[str]]] = {
    "draft": (lambda p: p.convert_to_draft(by="mona"), lambda p: p.ready_for_review(by="mona"), ["draft"]),
    "close": (lambda p: p.close(by="mona"), lambda p: p.reopen(by="mona"), ["closed"]),
    "base": (lambda p: p.edit_base("release", by="mona"), lambda p: p.edit_base("main", by="mona"), ["base_changed"]),
    "push": (lambda p: p.push({"more.py": "more\n"}, by="hubot"), take_back, ["head_changed"]),
    "label": (
        lambda p: p.unlabel(LABEL, by="mona"),
        lambda p: p.label(LABEL, by="tria"),
        ["label_removed", "label_without_right"],
    ),
}
"""An act that withdraws consent, what undoes it, and the reasons for which the pull request leaves its queue."""


async def labeled(world: World, *, queued: bool) -> dict[str, Any]:
    """A pull request for each act, with its label; reads lag from now on."""
    world.repository.create_branch("release", "main")
    pulls = {name: world.open(name) for name in WITHDRAWALS}
    await world.pass_time(CI_TIME * 2)
    world.repository.push("main", {"moved.py": "moved\n"}, "Move", by="rhea")
    await world.settle()
    if not queued:
        world.server.lag.set(2 * SECOND, "pull_request", "graphql")
    for pull in pulls.values():
        pull.label(LABEL, by="mona")
    if queued:
        await world.until_status(pulls["draft"], "checking")
        await world.pass_time(20 * SECOND)
        world.server.lag.set(2 * SECOND, "pull_request", "graphql")
    return pulls


async def joined(world: World, pulls: dict[str, Any]) -> list[int]:
    """The pull requests that IMQ has queued."""
    async with world.bot.engine.store.reading() as tx:
        repository = (await tx.queues.all())[0].repository
        timelines = [await tx.timeline.of_pull_request(repository.id, pull.number) for pull in pulls.values()]
    return [event.number for events in timelines for event in events if event.event == "queued"]


@pytest.mark.every_variant
@pytest.mark.parametrize(
    ("queued", "between"), [(False, 0.3), (True, 0.0), (True, 1.5)], ids=["labeled", "queued-burst", "queued"]
)
async def test_consent_withdrawn_and_unchanged_again_before_imq_reads_it_lands_nothing(
    world: World, queued: bool, between: float
) -> None:
    """A triager's label, or a draft that is ready again, does not bring back what a person took back."""
    if not queued:
        # A pull request that is not in the queue yet may become a draft, if it may wait.
        await configure(world, "when_not_ready: refuse\n")
    pulls = await labeled(world, queued=queued)
    for name, (act, _, _) in WITHDRAWALS.items():
        act(pulls[name])
    if between:
        await world.pass_time(between * SECOND)
    for name, (_, undo, _) in WITHDRAWALS.items():
        undo(pulls[name])
    await world.pass_time(CI_TIME * 4)
    left = {name: await world.reasons(pull) for name, pull in pulls.items()}
    expected = {name: reasons for name, (_, _, reasons) in WITHDRAWALS.items()}
    if not queued:
        # The first label was never judged: it was taken off before IMQ read it.
        expected["label"] = ["label_without_right"]
        assert await joined(world, pulls) == []
    assert left == expected
    assert [pull.number for pull in pulls.values() if pull.merged] == []
    assert {name: pull.labels for name, pull in pulls.items()} == {name: [] for name in WITHDRAWALS}


@pytest.mark.parametrize("fails", [False, True], ids=["lagging", "failing"])
async def test_label_set_again_by_a_person_who_may_queue_queues_although_imq_reads_it_late(
    world: World, fails: bool
) -> None:
    """A removal withdraws the label before it and none after it, also where its job is done last."""
    pull = world.open("again")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    await world.pass_time(20 * SECOND)
    if fails:
        world.server.faults.add(Fault(kind="fail", method="GET", route=PULL, status=502))
    else:
        world.server.lag.set(2 * SECOND, "pull_request", "graphql")
    pull.unlabel(LABEL, by="mona")
    pull.label(LABEL, by="hubot")
    await world.pass_time(10 * SECOND)
    entry = await world.entry(pull)
    assert entry is not None
    assert entry.queued_by == "hubot"
    await world.until(lambda: pull.merged)
