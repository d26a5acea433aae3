"""Makes the pictures of the pages for README and documents, from the demo: `make screenshots`."""

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from imq_demo.environment import Environment, open_environment
from imq_demo.scenario import plan
from imq_demo.scenario_runner import ScenarioRunner
from tests.support.browsing import DESKTOP, PHONE, Visit, log_in, visiting
from tests.support.chromium import chromium, chromium_process
from tests.support.real_time import LIMIT
from tests.support.setup_process import ROOT

FOLDER = ROOT / "docs" / "img"
SEED = 7
MAINTAINER = plan(SEED).maintainer
_POLL_SECONDS = 0.05
_MOST_TRIES = 40

THEMES: dict[str, dict[str, Any]] = {
    "": {"color_scheme": "light"},
    "-dark": {"color_scheme": "dark"},
    "-phone": {"color_scheme": "light", "viewport": PHONE, "device_scale_factor": 2},
}
"""The end of a picture's name, and the browser that shows the page so."""

IN_ALL_THEMES = {"queue"}
"""The pages that the documents show in each theme; of others they show the first."""


async def main() -> None:
    """Run the demo, and write a picture of each page while its queue is full, and at its end."""
    executable = chromium()
    if executable is None:
        sys.exit("There is no Chromium: install Debian's package chromium.")
    with tempfile.TemporaryDirectory() as directory, chromium_process(executable, Path(directory)) as address:
        scenario = plan(SEED)
        async with open_environment(scenario, speed=1.0, seed=SEED) as environment:
            runner = ScenarioRunner(environment, scenario)
            await _run(runner, until_busy=True)
            front = min(runner.queue.places, key=lambda number: runner.queue.places[number].position)
            running = asyncio.create_task(_run(runner, until_busy=False))
            await _take(address, environment, {"pull-request": _pull(front), "queue": _queue(), "overview": "/"})
            await running
            statistics = f"{_queue()}/statistics"
            await _take(address, environment, {"statistics": statistics, "requests": "/requests"})


async def _run(runner: ScenarioRunner, *, until_busy: bool) -> None:
    """Perform the scenario until some pull requests have landed and others wait, or to its end."""
    deadline = time.monotonic() + LIMIT
    while not runner.finished and time.monotonic() < deadline:
        runner.advance()
        landed = sum(pull.merged for pull in runner.pulls.values())
        if until_busy and landed >= 2 and len(runner.queue.places) >= 3:
            return
        await asyncio.sleep(_POLL_SECONDS)


async def _take(address: str, environment: Environment, pages: dict[str, str]) -> None:
    for ending, options in THEMES.items():
        shown = {name: path for name, path in pages.items() if not ending or name in IN_ALL_THEMES}
        if not shown:
            continue
        async with visiting(address, **({"viewport": DESKTOP} | options)) as visit:
            await log_in(visit.page, environment.bot.url, MAINTAINER)
            for name, path in shown.items():
                await _picture(visit, f"{environment.bot.url}{path}", FOLDER / f"page-{name}{ending}.png")


async def _picture(visit: Visit, url: str, path: Path) -> None:
    for _ in range(_MOST_TRIES):
        answer = await visit.page.goto(url, wait_until="load")
        if answer is None or answer.status != 200:
            sys.exit(f"{url} answered {answer.status if answer else 'nothing'}")
        # Between two runs a queue has no check to show.
        if not url.endswith(_queue()) or await visit.page.locator("progress").count():
            break
    await visit.page.screenshot(path=path, full_page=False)


def _queue() -> str:
    return "/repositories/tea-house/teapot/branches/main"


def _pull(number: int) -> str:
    return f"/repositories/tea-house/teapot/pulls/{number}"


if __name__ == "__main__":
    asyncio.run(main())
