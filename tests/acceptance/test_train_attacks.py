"""Somebody pushes to a member, a candidate or the base at each step of a train, while webhooks fail (P1, P4)."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from github_emulator import RecordedCall
from tests.acceptance.train_stage import TrainWorld, a_train_world
from tests.acceptance.train_witness import TrainWitness
from tests.acceptance.world import CI_TIME

Act = Callable[[TrainWorld, TrainWitness, Any, int], bool]
_MOST_MINUTES = 240


def push_to_member(trains: TrainWorld, witness: TrainWitness, pull: Any, at: int) -> bool:
    """The second member gets another commit, unless it has landed."""
    if pull.merged or pull.state != "open":
        return False
    witness.withdraw(pull)
    pull.push({f"more-{at}.py": "x\n"}, by="hubot")
    return True


def force_push_to_member(trains: TrainWorld, witness: TrainWitness, pull: Any, at: int) -> bool:
    """The second member gets another history, unless it has landed."""
    if pull.merged or pull.state != "open":
        return False
    witness.withdraw(pull)
    pull.force_push({f"other-{at}.py": "x\n"}, by="hubot")
    return True


def with_a_push(trains: TrainWorld) -> list[str]:
    """The branches of trains that somebody pushed to."""
    files = trains.world.repository.files
    return [name for name in trains.branches() if any(each.startswith("smuggled") for each in files(name))]


def push_to_branch(prefix: str) -> Act:
    """A branch of the train gets another commit."""

    def push(trains: TrainWorld, witness: TrainWitness, pull: Any, at: int) -> bool:
        found = [name for name in trains.branches() if name.startswith(prefix) and name not in with_a_push(trains)]
        for branch in found:
            trains.world.repository.push(branch, {f"smuggled-{at}.py": "x\n"}, "Smuggle", by="hubot")
        return bool(found)

    return push


def push_to_base(trains: TrainWorld, witness: TrainWitness, pull: Any, at: int) -> bool:
    """The base gets a commit by hand."""
    repository = trains.world.repository
    made = repository.commit({f"hand-{at}.py": "x\n"}, repository.sha(), "By hand", by="rhea")
    witness.by_hand.add(made)
    repository.push_commit("main", made, by="rhea")
    return True


ACTS: dict[str, Act] = {
    "member": push_to_member,
    "member_forced": force_push_to_member,
    "candidate": push_to_branch("imq/"),
    "build": push_to_branch("imq-build/"),
    "base": push_to_base,
}


async def attack(trains: TrainWorld, witness: TrainWitness, act: Act, at: int) -> bool:
    """Land three pull requests, and act at this step of their requests; whether there was such a step."""
    world = trains.world
    pulls = [trains.open() for _ in range(3)]
    await world.pass_time(CI_TIME * 2)
    steps, acted = 0, False

    async def hook(exchange: RecordedCall) -> None:
        nonlocal steps, acted
        steps += 1
        if steps >= at and not acted:
            acted = act(trains, witness, pulls[1], at)
            witness.note(f"acted {exchange.phase} {exchange.template}: {acted}")

    world.server.on_request = hook
    for pull in pulls:
        witness.agree(pull)
    for _ in range(_MOST_MINUTES):
        await world.pass_time(timedelta(minutes=1))
        if await world.entries() == ():
            break
    world.server.on_request = None
    await world.pass_time(timedelta(minutes=2))
    assert await world.entries() == (), f"{await world.describe()}\n{witness.report}"
    assert witness.complaints == [], witness.report
    assert await world.paused() is None, witness.report
    assert (pulls[0].merged, pulls[2].merged) == (True, True), f"{await world.reasons(pulls[2])}\n{witness.report}"
    assert not [name for name in world.repository.files("main") if name.startswith(("smuggled", "more", "other"))]
    # What somebody pushed to a branch of IMQ's own stays there; IMQ takes everything else away.
    assert trains.branches() == with_a_push(trains), witness.report
    if not pulls[1].merged:
        pulls[1].close(by="mona")
        await world.pass_time(timedelta(minutes=1))
    return acted and steps >= at


CASES = [(method, act) for method in ("merge", "squash") for act in ACTS if (method, act) != ("squash", "base")]
"""A push to the base between two merges of a train by squash stops the queue, which other tests hold."""


@pytest.mark.every_variant
@pytest.mark.parametrize(("method", "act"), [("merge", "member_forced"), ("merge", "base"), ("squash", "candidate")])
async def test_push_at_a_step_of_a_train_lands_nothing_without_consent(tmp_path: Path, method: str, act: str) -> None:
    """P1, P4: one step of each train for every run of the tests."""
    async with a_train_world(tmp_path, method=method) as trains:
        await attack(trains, TrainWitness(trains.world.github), ACTS[act], 20)


@pytest.mark.long
@pytest.mark.parametrize(("webhooks", "seconds"), [("once", 0), ("twice", 2), ("lost", 5)])
@pytest.mark.parametrize(("method", "act"), CASES)
async def test_push_at_many_steps_of_a_train_lands_nothing_without_consent(
    tmp_path: Path, method: str, act: str, webhooks: str, seconds: int
) -> None:
    """P1, P4: also where reads are old, and webhooks come twice, or not at all."""
    # Where reads are old, a merge by the API may follow a push that IMQ cannot know: the queue pauses after it.
    lag = timedelta(0) if act == "base" else timedelta(seconds=seconds)
    async with a_train_world(tmp_path, method=method, lag=lag) as trains:
        faults = trains.world.github.webhooks.faults
        witness = TrainWitness(trains.world.github, late=lag, unheard=webhooks == "lost")
        if webhooks == "twice":
            faults.double(None)
        at = 7
        while await attack(trains, witness, ACTS[act], at):
            if webhooks == "lost":
                faults.drop(None, event="pull_request", action="synchronize")
                faults.drop(None, event="push")
            at += 13
        assert at > 20
