"""What becomes of green pull requests when the process is killed with `kill -9` again and again, at any instant."""

import asyncio
import random
import tempfile
from pathlib import Path

from benchmarks.reaction import DEFAULTS
from benchmarks.sizes import Size
from benchmarks.stage import READS_LAG
from benchmarks.table import Row
from github_emulator import PullRequestHandle
from tests.acceptance.world import LABEL
from tests.process.processes import Theatre, a_theatre
from tests.support.real_time import LIMIT

_MARKER = "<!-- imq:comment"
_IN_FLIGHT = 3
_LONGEST_LIFE_SECONDS = 5.0


async def kills_row(size: Size, seed: int) -> list[Row]:
    """The row: how many merged, exactly once, with exactly one comment."""
    count, longest = size.of((20, _LONGEST_LIFE_SECONDS), (2, _LONGEST_LIFE_SECONDS), (1, 0.0))
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        async with a_theatre(f"sqlite:///{directory / 'imq.db'}", directory, lag=READS_LAG.get()) as theatre:
            theatre.environment |= DEFAULTS
            pulls = await _killed_again_and_again(theatre, count, longest, random.Random(seed))
            in_time = await _come_to_an_end(theatre, pulls)
            log = [commit.message for commit in theatre.repository.log("main")]
    once = sum(_landed_once(pull, log) for pull in pulls)
    spoken_once = sum(_spoken(pull) == 1 for pull in pulls)
    return [
        Row(
            name="kills",
            what="killed with kill -9 and restarted: green pull requests merged once / all",
            measured=f"{once} of {len(pulls)}, with one comment {spoken_once} (n={count} kills)",
            value=once / len(pulls),
            goal="all, once, one comment",
            met=once == spoken_once == len(pulls),
            reference="Kodiak itself, killed once: 0 of 3",
            note=f"kills at random instants up to {longest:.0f} s after each start of the process, its "
            f"starting included; seed {seed}, SQLite, default settings"
            + ("" if in_time else f"; NOT all merged within {LIMIT:.0f} s after the last kill"),
        )
    ]


async def _killed_again_and_again(
    theatre: Theatre, count: int, longest: float, chance: random.Random
) -> list[PullRequestHandle]:
    pulls: list[PullRequestHandle] = []
    for _ in range(count):
        while sum(not pull.merged for pull in pulls) < _IN_FLIGHT:
            pulls.append(_queued(theatre, len(pulls)))
        starting = asyncio.create_task(theatre.start())
        await asyncio.sleep(chance.uniform(min(0.1, longest), longest))
        theatre.kill("at a random instant")
        assert theatre.process is not None
        await theatre.process.wait()
        await starting
    return pulls


def _queued(theatre: Theatre, number: int) -> PullRequestHandle:
    pull: PullRequestHandle = theatre.repository.open_pull_request(
        f"Add {number}", head=f"add-{number}", by="mona", files={f"new{number}.py": f"{number}\n"}
    )
    pull.label(LABEL, by="mona")
    return pull


async def _come_to_an_end(theatre: Theatre, pulls: list[PullRequestHandle]) -> bool:
    """Let the last process live. Return whether everything landed in time, with its comment."""
    try:
        await theatre.until(lambda: all(_reported_landing(pull) for pull in pulls))
    except TimeoutError:
        return False
    return True


def _reported_landing(pull: PullRequestHandle) -> bool:
    return pull.merged and any("anded" in comment.body for comment in pull.comments)


def _spoken(pull: PullRequestHandle) -> int:
    return sum(_MARKER in comment.body for comment in pull.comments)


def _landed_once(pull: PullRequestHandle, log: list[str]) -> bool:
    return pull.merged and sum(message.startswith(f"Merge pull request #{pull.number} ") for message in log) == 1
