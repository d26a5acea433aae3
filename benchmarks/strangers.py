"""What people without the right cost others: a landing beside strangers who type commands (virtual time)."""

import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from benchmarks.merging import imq
from benchmarks.sizes import Size
from benchmarks.table import Row
from github_emulator import PullRequestHandle
from tests.acceptance.project import FILES

_CI = timedelta(seconds=20)
_LATENCY = timedelta(seconds=0.1)
_STRANGERS = ("eve", "mallory", "trudy", "oscar")
_A_MINUTE = 80
"""Comments of each."""
_GOAL_SECONDS = 5.0


async def strangers_row(size: Size, seed: int) -> list[Row]:
    """From the label to the merge, while four accounts type `/queue` in another repository of the installation."""
    minutes, each = size.of((5, _A_MINUTE), (1, _A_MINUTE), (1, 2))
    alone, beside = await landing_beside(0, each), await landing_beside(minutes, each)
    value = (beside - alone).total_seconds()
    return [
        Row(
            name="strangers",
            what=f"a landing's delay by 4 strangers, each {each} comments a minute for {minutes} min",
            measured=f"{value:.1f} s ({beside.total_seconds():.1f} s beside {alone.total_seconds():.1f} s alone)",
            value=value,
            goal=f"at most {_GOAL_SECONDS:.0f} s",
            met=value <= _GOAL_SECONDS,
            note="exact in virtual time, API 0.1 s; 605 s before people without the right were throttled",
        )
    ]


async def landing_beside(minutes: int, each: int) -> timedelta:
    """How long a green pull request takes to land after so many minutes of comments, which go on meanwhile.

    `each`: how many comments a stranger writes in a minute.
    """
    with tempfile.TemporaryDirectory() as directory:
        async with imq(Path(directory), _CI) as queue:
            github = queue.stage.github
            for login in _STRANGERS:
                github.create_user(login)
            noisy = github.create_repository("acme/noisy", files=FILES, private=False)
            target = noisy.open_pull_request("Noise", head="noise", files={"noise.py": "noise\n"})
            pull = queue.stage.open("quiet")
            await queue.time.until(lambda: any(run.conclusion == "success" for run in pull.check_runs))
            await queue.time.settle()
            queue.stage.server.latency = _LATENCY
            for number in range(minutes * each * 2):
                github.schedule.after(number * timedelta(minutes=1) / each, _all_comment(target))
            label_set = queue.clock.now() + timedelta(minutes=minutes)
            github.schedule.after(timedelta(minutes=minutes), lambda: queue.ask(pull))
            await queue.time.until(lambda: pull.merged)
            return queue.clock.now() - label_set


def _all_comment(pull: PullRequestHandle) -> Callable[[], None]:
    def comment() -> None:
        for login in _STRANGERS:
            pull.comment("/queue", by=login)

    return comment
