"""The comparison of trains as its user runs it: in one mode, with a few pull requests, until it is interrupted."""

import asyncio
import io
import re

import aiohttp
import pytest
from rich.console import Console

from imq_demo.trains import run
from imq_demo.trains.landing import LandingMode
from tests.support.real_time import LIMIT

pytestmark = pytest.mark.process


@pytest.mark.thorough
@pytest.mark.process
@pytest.mark.slow
async def test_comparison_that_is_kept_open_serves_the_queue_of_each_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pages answer from the start, and after the verdict until Ctrl-C, also with reads that lag."""
    monkeypatch.setattr(run, "MODES", (LandingMode(0), LandingMode(1)))
    monkeypatch.setattr(run, "_COUNT", 3)
    written = io.StringIO()
    task = asyncio.create_task(
        run.run_trains(Console(file=written, width=200), speed=10, seed=1, lag=0.5, keep_open=True)
    )
    async with asyncio.timeout(LIMIT), aiohttp.ClientSession() as session:
        while "Everything stays up" not in written.getvalue():
            assert not task.done(), written.getvalue()
            await asyncio.sleep(0.1)
        found = re.findall(r"The queue of (.+): (\S+)", written.getvalue())
        assert [name for name, _ in found] == ["one by one", "trains, 1 run at once"]
        for _, page in found:
            async with session.get(page) as answer:
                assert (answer.status, "Add recipe 1: assam" in await answer.text()) == (200, True)
        task.cancel()
        assert await task == 0, written.getvalue()
