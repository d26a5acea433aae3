"""The page of a queue and the reply to `/why` while a train tests its pull requests."""

from typing import Any

import aiohttp
import pytest

from bot.cli.author.terminal import details
from github_emulator import PullRequestHandle
from queue_engine.domain.run import CandidateTrigger, Run, RunMember, RunState
from queue_engine.store.trains import TrainMemory
from tests.acceptance.callers import caller, path_of
from tests.acceptance.page_readers import reader
from tests.acceptance.world import LABEL, World

QUEUE = "/repositories/acme/widgets/branches/main"


async def bisected(world: World) -> list[PullRequestHandle]:
    """Three queued pull requests whose run failed; another run tests the first two of them."""
    pulls = [world.open(name) for name in ("one", "two", "three")]
    for pull in pulls:
        pull.label(LABEL, by="mona")
    await world.settle()
    async with world.bot.engine.store.transaction() as tx:
        (queue,) = await tx.queues.all()
        entries = await tx.entries.of_queue(queue.id)
        members = tuple(RunMember(each.number, each.id, each.head_sha) for each in entries[:2])
        run = Run(
            id=None,
            queue_id=queue.id,
            base_branch="main",
            base_tip="0" * 40,
            members=members,
            tested=frozenset(each.number for each in members),
            trigger=CandidateTrigger.PUSH,
            state=RunState.TESTING,
            started_at=world.clock.now(),
        )
        await tx.runs.add(run)
        await tx.trains.save(TrainMemory(queue.id, 0, memory([each.number for each in entries])))
        await tx.queues.note_trains(queue.id, True)
    return pulls


def memory(numbers: list[int]) -> dict[str, Any]:
    """What plans remember of a run with these members that failed."""
    queue = [{"id": each, "since": 0.0, "qualified_at": None} for each in numbers]
    return {
        "trains": {"queue": queue, "failures": [{"suspects": numbers, "content": numbers}]},
        "suspicions": {str(numbers[0]): 0.42},
    }


async def test_queue_page_draws_a_train_and_its_bisection(world: World) -> None:
    """A maintainer sees the failed run, the run that looks for the cause, what is next, and one member's path."""
    first, second, third = [pull.number for pull in await bisected(world)]
    async with reader(world, "mona") as mona:
        page = await mona.get(f"{QUEUE}?member={first}")
        assert page.status == 200
        assert "A run failed; smaller runs look for the cause. No action needed." in page.text
        assert f"#{third} three : one of them, with main , breaks it." in page.text
        assert f"Then #{third} three Tested when the run above ends." in page.text
        assert "At worst about 3 more runs: then only the cause leaves, and the others keep their places." in page.text
        assert page.html.count(" marked") >= 2, "the failed run, and the one that tests it now"
        assert f"Marked: the path of #{first}" in page.text
        assert " marked" not in (await mona.get(QUEUE)).html
        overview = await mona.get("/")
        assert "finding the cause" in overview.text
        assert f"A run failed #{first} #{second}" in overview.text


async def test_every_way_to_ask_says_what_a_train_does_with_a_pull_request(
    world: World, session: aiohttp.ClientSession
) -> None:
    """The page, the API and the command line have the sentences of `/why`, and the page leads to the path."""
    pulls = await bisected(world)
    first, second, third = [pull.number for pull in pulls]
    failed = f"A CI run of #{first}, #{second}, #{third} failed."
    chance = "The chance that this pull request breaks its run is about 42 % (4 in 10)."
    async with reader(world, "mona") as mona:
        page = await mona.get(f"/repositories/acme/widgets/pulls/{first}")
        assert failed in page.text.replace(" ,", ",").replace(" failed", " failed")
        assert chance in page.text
        assert f"{QUEUE}?member={first}#now" in page.links
        waiting = await mona.get(f"/repositories/acme/widgets/pulls/{third}")
        assert (
            "A CI run with it failed, and IMQ tests parts of that run to find the cause. (finding_cause)"
            in waiting.text
        )
        assert "Next: Wait: it leaves only if it is the cause. No action needed: IMQ is at work." in waiting.text
    answer = (await (await caller(world, session)).ask("GET", path_of(pulls[0]))).body
    train = answer["entry"]["train"]
    assert (train["sentences"][0], train["sentences"][-1]) == (failed, chance)
    assert (train["progress"], train["members"], train["failed"]) == (
        "bisecting",
        [first, second],
        [first, second, third],
    )
    shown = "\n".join(details(answer))
    assert failed in shown
    assert chance in shown


async def test_confirmation_names_the_members_whose_run_a_dequeue_ends(world: World) -> None:
    """They are tested again, so they land later; only who is in no run with it lands sooner."""
    first, second, third = [pull.number for pull in await bisected(world)]
    async with reader(world, "mona") as mona:
        page = await mona.get(f"/repositories/acme/widgets/pulls/{first}/confirm?do=dequeue")
        assert f"Delayed #{second} , each by about" in page.text
        assert f"Sooner #{third}" in page.text
        assert "the CI run of its train ends without a result, and IMQ tests the others again" in page.text
        unmarked = await mona.get(f"{QUEUE}?member={third + 50}")
        assert "Marked" not in unmarked.text, "it is in no run"


@pytest.mark.thorough
async def test_why_says_what_a_bisection_does_and_how_suspicious_the_pull_request_is(world: World) -> None:
    """The author reads who failed together, who is tested now, and a chance in plain words."""
    pulls = await bisected(world)
    (first, second, third), pull = [each.number for each in pulls], pulls[0]
    pull.comment("/why", by="mona")
    await world.settle()
    shown = next(each.body for each in pull.comments if "imq:comment" in each.body)
    assert f"A CI run of `#{first}`, `#{second}`, `#{third}` failed." in shown
    assert f"this part has `#{first}`, `#{second}`." in shown
    assert "The chance that this pull request breaks its run is about 42 % (4 in 10)." in shown
