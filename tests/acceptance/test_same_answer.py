"""Why a pull request waits: `/why`, the API, the command line and the status page give the same answer."""

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp

from bot.cli.dry_run import describe_status
from bot.settings.environment import load_settings
from github_emulator import Fault
from notifications.render.status import Names, plain, status_lines
from queue_engine.domain.model import RedBase
from queue_engine.queries.pull_request_status import load_reply_facts
from tests.acceptance.callers import Caller, caller, path_of
from tests.acceptance.test_freezes import frozen_for
from tests.acceptance.world import CI_TIME, LABEL, World, a_world

CHECK_RUNS = "/repos/{owner}/{repo}/commits/{ref}/check-runs"
MOMENT = timedelta(seconds=5)
EXEMPT = "freeze: {exempt_labels: [allowed]}\n"


@dataclass(frozen=True)
class Answer:
    """Why a pull request waits, by every way to ask."""

    state: str
    position: int | None = None
    depth: int | None = None
    held_behind: int | None = None
    pending_checks: tuple[str, ...] = ()
    blockers: tuple[str, ...] = ()
    failing_since: str | None = None
    left_for: str | None = None
    sentences: tuple[str, ...] = field(default=(), compare=False)


async def asked(world: World, mona: Caller, pull: Any) -> Answer:
    """The answer of all of them, which is the same."""
    answer = await by_command(world, pull)
    found = await by_api(mona, pull)
    assert found == answer
    # Of what is not queued, the API reads no configuration, so that the next step names no label.
    known = slice(None if answer.depth else -1)
    assert found.sentences[known] == answer.sentences[known]
    await command_line_agrees(world, pull, answer)
    await status_page_agrees(mona, answer)
    return answer


async def by_command(world: World, pull: Any) -> Answer:
    """What `/why` finds, and says."""
    engine = world.bot.engine
    async with engine.store.reading() as tx:
        repository = await tx.repositories.named("acme", "widgets")
    assert repository is not None
    policy = await engine.policies.of(repository, "main")
    async with engine.store.reading() as tx:
        facts = await load_reply_facts(tx, repository.id, pull.number, "main", policy, world.clock.now())
    found, view = facts.pull_request, facts.pull_request.entry
    depth = found.depth if found.is_queued else None
    sentences = tuple(plain(line.sentence) for line in status_lines(found, Names.of("main", policy)))
    if view is None:
        reason = None if found.previous is None else found.previous.reason
        left_for = None if reason is None else reason.value
        return Answer(found.state, None, depth, found.held_behind, left_for=left_for, sentences=sentences)
    return Answer(
        found.state,
        view.entry.position,
        depth,
        None,
        view.pending_checks,
        tuple(blocker.reason.value for blocker in view.blockers),
        None if view.outage is None else view.outage.since.isoformat(),
        sentences=sentences,
    )


async def by_api(mona: Caller, pull: Any) -> Answer:
    """The answer to a program; the whole queue shows the same entry, and its summary the same queue."""
    shown = (await mona.ask("GET", path_of(pull))).body
    left_for = None if shown["previous"] is None else shown["previous"]["reason"]
    if shown["entry"] is None:
        depth = None if shown["base_branch"] is None else shown["depth"]
        sentences = tuple(shown["sentences"])
        return Answer(shown["state"], None, depth, shown["held_behind"], left_for=left_for, sentences=sentences)
    entry, repository = shown["entry"], "/api/v1/repositories/acme/widgets"
    whole = (await mona.ask("GET", f"{repository}/branches/main/queue")).body
    assert [each for each in whole["entries"] if each["number"] == pull.number] == [entry]
    (summary,) = (await mona.ask("GET", f"{repository}/queues")).body["queues"]
    assert {name: whole[name] for name in summary} == summary
    since = entry["outage"] and entry["outage"]["since"]
    assert entry["eta"] is None, "nobody landed here yet"
    return Answer(
        shown["state"],
        entry["position"],
        shown["depth"],
        None,
        tuple(entry["pending_checks"]),
        tuple(blocker["reason"] for blocker in entry["blockers"]),
        None if since is None else since.replace("Z", "+00:00"),
        left_for,
        tuple(shown["sentences"]),
    )


async def command_line_agrees(world: World, pull: Any, answer: Answer) -> None:
    """The command line of operators says the same."""
    engine, record = world.bot.engine, world.repository.record
    async with engine.store.reading() as tx:
        repository = await tx.repositories.named("acme", "widgets")
    assert repository is not None
    policy = await engine.policies.of(repository, "main")
    shown = await describe_status(
        load_settings(world.environment), record.id, pull.number, "main", policy, world.clock.now()
    )
    assert shown[: len(answer.sentences)] == answer.sentences


async def status_page_agrees(mona: Caller, answer: Answer) -> None:
    """The page for all queues shows the first blocker of this one, and how deep it is."""
    page = (await mona.ask("GET", "/queue/status")).body
    whole = (await mona.ask("GET", "/api/v1/repositories/acme/widgets/branches/main/queue")).body
    (queue,) = page["queues"]
    first = whole["blockers"][0]["reason"] if whole["blockers"] else None
    assert (queue["blocker"], queue["depth"], queue["held"]) == (first, whole["depth"], whole["held"])
    assert answer.depth in (None, queue["depth"])


async def test_every_answer_to_why_is_the_same(tmp_path: Path, session: aiohttp.ClientSession) -> None:
    """Checking, behind the front, held, paused, frozen, exempt, on a red base, GitHub failing, and dequeued."""
    async with a_world(tmp_path, settings={"IMQ_MAX_QUEUE_DEPTH": "3"}) as world:
        mona = await caller(world, session)
        world.repository.push("main", {".github/imq.yml": EXEMPT}, "Rules", by="rhea")
        front, exempt, third, held = (world.open(name) for name in ("front", "exempt", "third", "held"))
        await world.pass_time(CI_TIME * 2)
        world.repository.push("main", {"past.py": "moved\n"}, "Move the base", by="rhea")
        exempt.label("allowed", by="mona")
        for pull in (front, exempt, third, held):
            pull.label(LABEL, by="mona")
            await world.settle()
        await world.until_status(front, "checking")
        await world.pass_time(MOMENT)
        pending = ("ci/test",)
        assert await asked(world, mona, front) == Answer("checking", 0, 3, None, pending)
        assert await asked(world, mona, third) == Answer("pending", 2, 3)
        assert await asked(world, mona, held) == Answer("held", None, 3, 0)

        await typed(world, front, "/pause the disk is full")
        assert await asked(world, mona, front) == Answer("checking", 0, 3, None, pending, ("paused_by_hand",))
        await configure(world, frozen_for(world, timedelta(hours=9)))
        both = ("paused_by_hand", "frozen")
        assert await asked(world, mona, third) == Answer("pending", 2, 3, blockers=both)
        assert await asked(world, mona, exempt) == Answer("pending", 1, 3, blockers=("paused_by_hand",))
        assert await asked(world, mona, held) == Answer("held", None, 3, 0)

        await configure(world, EXEMPT)
        await redden(world, front)
        both = ("paused_by_hand", "base_red")
        assert await asked(world, mona, front) == Answer("checking", 0, 3, None, pending, both)

        world.server.faults.add(Fault(kind="fail", method="GET", route=CHECK_RUNS, status=502, times=None))
        await typed(world, front, "/resume")
        await world.pass_time(CI_TIME)
        failing = await asked(world, mona, front)
        assert failing == Answer("checking", 0, 3, failing_since=failing.failing_since)
        assert failing.failing_since is not None
        world.server.faults.clear()

        await typed(world, third, "/unqueue")
        assert await asked(world, mona, third) == Answer("not_queued", left_for="unqueued")

        await configure(world, frozen_for(world, timedelta(hours=9)))
        joined = await asked(world, mona, held)
        assert (joined.state, joined.blockers) == ("pending", ("frozen",))


async def typed(world: World, pull: Any, text: str) -> None:
    """A maintainer gives a command, and IMQ carries it out."""
    pull.comment(text, by="rhea")
    await world.pass_time(MOMENT)


async def configure(world: World, rules: str) -> None:
    """The repository's rules change, and IMQ reads them."""
    world.repository.push("main", {".github/imq.yml": rules}, "Rules", by="rhea")
    await world.pass_time(MOMENT)


async def redden(world: World, front: Any) -> None:
    """A check was found to fail on the base itself; IMQ does not read it again for an hour."""
    entry, now = await world.entry(front), world.clock.now()
    assert entry is not None
    async with world.bot.engine.change() as change:
        await change.tx.red_bases.note(entry.queue_id, RedBase("ci/test", "tip", now, 1, now + timedelta(hours=1)))
    await world.pass_time(MOMENT)
