"""P5, P6: no refusal of half a minute is a rule: no pull request leaves, and every text is true in the end.

The grid: each status, on reads, writes or both, from each request on that an entry or a train sends. The ordinary run
has a diagonal of it, `make long` all.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from github_emulator import Fault, RecordedCall
from tests.acceptance.train_world import a_train_world, queue_all, ready
from tests.acceptance.world import LABEL, World, a_world

HALF_A_MINUTE = timedelta(seconds=30)
HTML = "<html><body>This request was blocked by your network's security policy.</body></html>"
ANSWERS: dict[str, dict[str, Any]] = {
    **{str(status): {"status": status} for status in (400, 401, 403, 404, 408, 409, 422, 429, 500, 502, 503)},
    "html": {"status": 403, "body": HTML},
    "html_200": {"status": 200, "body": HTML},
    "reset": {"kind": "reset"},
    "empty_list": {"status": 200, "body": []},
    "gone": {"status": 410},
    "words": {"status": 422, "body": {"message": "Request cannot be processed at this time."}},
}
SIDES = ("reads", "writes", "both")
ENTRY = {
    "queued": r"GET |POST /graphql",
    "update": r"PUT .*/update-branch",
    "checks": r"GET .*/check-runs",
    "merge": r"PUT .*/merge$",
    "words": r"(POST|PATCH) .*/comments",
    "check_run": r"(POST|PATCH) .*/check-runs",
    "label": r"DELETE .*/labels/",
}
"""From which request on GitHub refuses: of an entry that is queued, updated, checked, merged and announced."""
TRAIN = {
    "branch": r"POST .*/git/refs",
    "build": r"POST .*/merges",
    "tested": r"GET .*/check-runs",
    "land": r"POST /graphql mutation",
    "merge": r"PUT .*/merge$",
    "words": r"(POST|PATCH) .*/comments",
}
"""The same of a train that is built, tested and landed, at once or by one merge after the other."""


def _words(recorded: RecordedCall) -> str:
    query = str((recorded.body or {}).get("query", "")) if isinstance(recorded.body, dict) else ""
    return f"{recorded.template} {query.lstrip().split(' ')[0].split('(')[0]}".strip() if query else recorded.template


def _reads(recorded: RecordedCall) -> bool:
    return recorded.method == "GET" or _words(recorded) == "POST /graphql query"


@dataclass
class Window:
    """Faults from the first request on that fits, for half a minute if not said; `alone`: only for those that fit."""

    world: World
    begins_with: str
    side: str
    began: Any = None
    lasts: timedelta = HALF_A_MINUTE
    alone: bool = False
    query: str = ""

    def open(self, recorded: RecordedCall) -> bool:
        """Whether this request is refused."""
        now = self.world.clock.now()
        fits = re.search(self.begins_with, _words(recorded)) and self.query in str(recorded.body)
        if self.began is None and fits:
            self.began = now
        if self.began is None or now >= self.began + self.lasts:
            return False
        if self.alone:
            return bool(fits)
        return self.side == "both" or _reads(recorded) == (self.side == "reads")


def refuse(world: World, answer: str, side: str, begins_with: str) -> Window:
    """Let GitHub answer so for half a minute."""
    window = Window(world, begins_with, side)
    how: dict[str, Any] = {"kind": "fail", **ANSWERS[answer]}
    world.server.faults.add(Fault(times=None, when=window.open, **how))
    return window


async def assert_all_landed(world: World, pulls: list[Any], window: Window) -> None:
    """Everything lands, no pull request left, and what people read is true."""
    await world.until(lambda: all(pull.merged for pull in pulls), within=timedelta(hours=1))
    await world.pass_time(timedelta(minutes=12))
    assert window.began is not None, "the request was never sent"
    assert [await world.reasons(pull) for pull in pulls] == [[] for _ in pulls]
    assert await world.paused() is None
    assert await world.contradictions() == []
    assert [pull.labels for pull in pulls] == [[] for _ in pulls]
    assert all("anded" in world.comment(pull) for pull in pulls)
    async with world.bot.engine.store.reading() as tx:
        assert await tx.dead_letters.list(10) == ()


def grid(states: dict[str, str]) -> Iterator[Any]:
    """Every combination; those outside a diagonal belong to the long gate.

    To the removal of a label GitHub answers with those that stay: an empty list says that it was done.
    """
    for number, (answer, side, state) in enumerate(product(ANSWERS, SIDES, states)):
        if (answer, state) == ("empty_list", "label") and side != "reads":
            continue
        row = list(ANSWERS).index(answer)
        ordinary = (SIDES[row % 3], list(states)[row % len(states)]) == (side, state)
        yield pytest.param(
            answer,
            side,
            state,
            marks=[] if ordinary else [pytest.mark.long],
            id=f"{number}-{answer}-{side}-{state}",
        )


@pytest.mark.thorough
@pytest.mark.parametrize(("answer", "side", "state"), list(grid(ENTRY)))
async def test_entry_survives_what_github_answers_for_half_a_minute(
    tmp_path: Path, answer: str, side: str, state: str
) -> None:
    """Two pull requests, the first behind its base."""
    async with a_world(tmp_path) as world:
        pulls = [await world.behind("first"), world.open("second")]
        window = refuse(world, answer, side, ENTRY[state])
        for pull in pulls:
            pull.label(LABEL, by="mona")
        await assert_all_landed(world, pulls, window)


@pytest.mark.parametrize(("answer", "side", "state"), list(grid(TRAIN)))
async def test_train_survives_what_github_answers_for_half_a_minute(
    tmp_path: Path, answer: str, side: str, state: str
) -> None:
    """Two pull requests that are tested together; no branch of theirs stays."""
    async with a_train_world(tmp_path, more="merge: {method: squash}\n" if state == "merge" else "") as world:
        pulls = await ready(world, "first", "second")
        window = refuse(world, answer, side, TRAIN[state])
        queue_all(pulls)
        await assert_all_landed(world, pulls, window)
        assert [name for name in world.repository.record.git.branches() if name.startswith("imq")] == []


@pytest.mark.thorough
async def test_reads_that_get_422_for_a_quarter_of_an_hour_eject_no_entry(tmp_path: Path) -> None:
    """P5: a refusal that lasts is a rule only while everything else works."""
    async with a_world(tmp_path) as world:
        pulls = [await world.behind("first"), world.open("second")]
        window = refuse(world, "422", "both", ENTRY["checks"])
        window.lasts = timedelta(minutes=15)
        for pull in pulls:
            pull.label(LABEL, by="mona")
        await assert_all_landed(world, pulls, window)


@pytest.mark.thorough
async def test_merge_that_gets_an_unknown_422_for_half_a_minute_ejects_no_entry(tmp_path: Path) -> None:
    """P5: words that IMQ does not know are no rule, unless GitHub repeats them."""
    async with a_world(tmp_path) as world:
        pulls = [await world.behind("first"), world.open("second")]
        window = Window(world, ENTRY["merge"], "writes", lasts=HALF_A_MINUTE)
        body = {"message": "Request cannot be processed at this time."}
        world.server.faults.add(Fault(times=None, when=window.open, kind="fail", status=422, body=body))
        for pull in pulls:
            pull.label(LABEL, by="mona")
        await assert_all_landed(world, pulls, window)
