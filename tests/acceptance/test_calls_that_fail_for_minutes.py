"""P2, P5, P6: a request that failed is no request whose effect is not seen yet, and a lost answer is no failure.

One call fails for six minutes, while everything else works; or GitHub does what was asked, and its answers are lost.
The landing gate has three examples of the table, `make long` all.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from github_emulator import CISettings, Fault, RecordedCall
from tests.acceptance.test_queue_only_checks import QUEUE_ONLY, long_checks
from tests.acceptance.test_refused_for_half_a_minute import Window, assert_all_landed
from tests.acceptance.test_stacked import green
from tests.acceptance.train_stage import a_train_world
from tests.acceptance.world import CI_TIME, LABEL, World, a_world

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
ACCEPTED = "GitHub accepted"
HOW: dict[str, dict[str, Any]] = {
    "fails": {"kind": "fail", "status": 503},
    "answer_lost": {"kind": "apply_then_reset"},
}


@asynccontextmanager
async def one_by_one(directory: Path) -> AsyncIterator[tuple[World, list[Any]]]:
    """Two pull requests, the first behind its base."""
    async with a_world(directory) as world:
        yield world, [await world.behind("first"), world.open("second")]


@asynccontextmanager
async def unlisted(directory: Path) -> AsyncIterator[tuple[World, list[Any]]]:
    """The same on a GitHub whose GraphQL API lists no collaborators; IMQ deletes branches that landed."""
    async with one_by_one(directory) as (world, pulls):
        world.github.behaviour.collaborators_shown = False
        text = "merge: {delete_branch: true}\n"
        world.repository.push("main", {".github/imq.yml": text}, "Configure IMQ", by="rhea")
        await world.settle()
        yield world, pulls


@asynccontextmanager
async def unheard(directory: Path) -> AsyncIterator[tuple[World, list[Any]]]:
    """The same, whose labels no webhook reports at first."""
    async with one_by_one(directory) as (world, pulls):
        world.github.webhooks.faults.drop(2, event="pull_request", action="labeled")
        yield world, pulls


@asynccontextmanager
async def flaky(directory: Path) -> AsyncIterator[tuple[World, list[Any]]]:
    """One pull request behind its base, whose job fails the first time on each commit."""
    async with a_world(directory, ci=False, protect=False) as world:
        ci = world.repository.add_ci("test", settings=CISettings(workflow="CI", duration=CI_TIME))
        world.repository.protect("main", required_checks=["test"])
        pull = await world.behind("first")
        ci.plan = ("failure",)
        yield world, [pull]


@asynccontextmanager
async def queue_only(directory: Path) -> AsyncIterator[tuple[World, list[Any]]]:
    """One pull request whose long check a label of IMQ's starts."""
    async with a_world(directory) as world:
        world.repository.push("main", {".github/imq.yml": QUEUE_ONLY}, "Configure IMQ", by="rhea")
        long_checks(world)
        pull = world.open("first")
        await world.pass_time(CI_TIME * 2)
        yield world, [pull]


@asynccontextmanager
async def stacked(directory: Path) -> AsyncIterator[tuple[World, list[Any]]]:
    """The lower one of a stack, which GitHub merges in the background."""
    async with a_world(directory) as world:
        bottom, _, _ = await green(world)
        yield world, [bottom]


def train(**more: Any) -> Callable[[Path], Any]:
    """Two pull requests that are tested together."""

    @asynccontextmanager
    async def made(directory: Path) -> AsyncIterator[tuple[World, list[Any]]]:
        async with a_train_world(directory, **more) as trains:
            pulls = [trains.open(), trains.open()]
            await trains.world.pass_time(CI_TIME * 2)
            yield trains.world, pulls

    return made


@dataclass(frozen=True)
class Called:
    """A call of IMQ's that changes GitHub, and what makes IMQ send it."""

    route: str
    scene: Callable[[Path], Any] = one_by_one
    query: str = ""


DRAFTS = train(trains="{candidates: pull_request}", on=("pull_request",))
CALLS = {
    "update": Called(r"^PUT .*/update-branch$"),
    "merge": Called(r"^PUT .*/merge$"),
    "merge_async": Called(r"^PUT .*/merge-async$", stacked),
    "rerun": Called(r"^POST .*/rerun", flaky),
    "comment": Called(r"^POST .*/issues/.*/comments$"),
    "comment_edit": Called(r"^PATCH .*/issues/comments/"),
    "check_run": Called(r"^POST .*/check-runs$"),
    "check_run_edit": Called(r"^PATCH .*/check-runs/"),
    "label": Called(r"^POST .*/labels$", queue_only),
    "label_removal": Called(r"^DELETE .*/labels/"),
    "permission": Called(r"^GET .*/collaborators/", unlisted),
    "landed_branch": Called(r"^POST /graphql", unlisted, query="mutation UpdateRefs"),
    "redelivery": Called(r"^POST /app/hook/deliveries/", unheard),
    "merge_of_a_member": Called(r"^PUT .*/merge$", train(method="squash")),
    "merges": Called(r"^POST .*/merges$", train()),
    "new_branch": Called(r"^POST .*/git/refs$", train()),
    "new_commit": Called(r"^POST .*/git/commits$", train(method="squash")),
    "moved_branches": Called(r"^POST /graphql", train(), query="mutation UpdateRefs"),
    "deleted_branches": Called(r"^POST /graphql", train(method="rebase"), query="mutation UpdateRefs"),
    "draft": Called(r"^POST .*/pulls$", DRAFTS),
    "closed_draft": Called(r"^PATCH .*/pulls/", DRAFTS),
    "dispatch": Called(r"/dispatches$", train(trains="{candidates: dispatch}", on=("dispatch", "pull_request"))),
}
IN_THE_GATE = {("update", "fails"), ("merges", "answer_lost"), ("redelivery", "fails")}


def cases() -> list[Any]:
    """Each call in both ways; most belong to the long gate."""
    return [
        pytest.param(call, how, marks=[] if (call, how) in IN_THE_GATE else [pytest.mark.long])
        for call, how in product(CALLS, HOW)
    ]


def fail(world: World, called: Called, how: str, lasts: timedelta) -> Window:
    """Let this call, and no other, fail so from its first request on."""
    window = Window(world, called.route, "both", lasts=lasts, alone=True, query=called.query)
    world.server.faults.add(Fault(times=None, when=window.open, **HOW[how]))
    return window


@pytest.mark.parametrize(("call", "how"), cases())
async def test_call_that_fails_for_minutes_is_repeated_and_everything_lands(
    tmp_path: Path, call: str, how: str
) -> None:
    """P2, P5, P6: no entry leaves, no text names an effect that did not come, and each effect is there once."""
    called, sent = CALLS[call], list[str]()
    async with called.scene(tmp_path) as (world, pulls):
        window = fail(world, called, how, 6 * MINUTE)

        async def listen(exchange: RecordedCall) -> None:
            sent.append(str((exchange.body or {}).get("body", "")) if isinstance(exchange.body, dict) else "")

        world.server.on_request = listen
        for pull in pulls:
            pull.label(LABEL, by="mona")
        await assert_all_landed(world, pulls, window)
        assert not [text for text in sent if ACCEPTED in text]
        assert [pull.merged for pull in pulls] == [True for _ in pulls]
        branches = world.repository.record.git.branches
        await world.until(lambda: not any(name.startswith("imq") for name in branches()), within=HOUR)
        drafts = [pull for pull in world.repository.record.pulls.values() if pull.title.startswith("Candidate of IMQ")]
        assert {pull.state for pull in drafts} <= {"closed"}


@pytest.mark.thorough
@pytest.mark.parametrize("call", ["update", pytest.param("merge", marks=pytest.mark.long)])
async def test_call_that_fails_for_an_hour_lets_the_entry_leave_as_github_in_trouble(tmp_path: Path, call: str) -> None:
    """P5, P6: the author reads that GitHub failed, not that it accepted anything; the next one follows."""
    async with one_by_one(tmp_path) as (world, pulls):
        fail(world, CALLS[call], "fails", 10 * HOUR)
        pulls[0].label(LABEL, by="mona")
        await world.pass_time(55 * MINUTE)
        assert await world.reasons(pulls[0]) == []
        await world.until(lambda: LABEL not in pulls[0].labels, within=HOUR)
        assert await world.reasons(pulls[0]) == ["github_trouble"]
        assert ACCEPTED not in world.comment(pulls[0])
