"""P2, for real: a process killed with `kill -9` at each step of the way, on both databases."""

from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.processes import a_theatre
from tests.scenarios.template import Template
from tests.scenarios.world import LABEL

pytestmark = [pytest.mark.process, pytest.mark.slow]

MARKER = "<!-- imq:comment"
RERUN = "POST /repos/{owner}/{repo}/actions/runs/{run_id}/rerun-failed-jobs"


async def test_bot_killed_at_each_step_lands_every_green_pull_request_once(database_url: str, tmp_path: Path) -> None:
    """Killed before and after each kind of request took effect, the next start carries on: one merge, one comment."""
    async with a_theatre(database_url, tmp_path) as theatre:
        theatre.template = Template()
        pulls = [
            theatre.repository.open_pull_request(f"Add {n}", head=f"add-{n}", by="mona", files={f"new{n}.py": f"{n}\n"})
            for n in range(4)
        ]
        red = theatre.repository.open_pull_request("Red", head="red", by="mona", files={"red.txt": "99\n"})
        await theatre.start()
        # What is read lies between writes; that every instant there is safe is shown on one database.
        reading = database_url.startswith("sqlite")
        theatre.kill_once_at_each_step(reading=reading)
        for pull in (pulls[0], red, *pulls[1:]):
            pull.label(LABEL, by="mona")
        everybody = (*pulls, red)

        def over() -> bool:
            return all(pull.merged for pull in pulls) and all(LABEL not in pull.labels for pull in everybody)

        await theatre.until(over, seconds=240)
        # Comments may wait half a minute for the points that merges leave.
        await theatre.until(lambda: all("anded" in _said(pull) for pull in pulls), seconds=90)
        steps = {step.rpartition(" ")[0] for step in theatre.deaths}
        wanted = {"POST", "PUT", "DELETE"} | ({"GET"} if reading else set())
        assert {step.split(" ")[0] for step in steps} >= wanted, theatre.deaths
        assert len(theatre.deaths) >= (20 if reading else 12), theatre.deaths
        assert not red.merged
        # What failed was run again once, whenever the bot was killed over it.
        assert RERUN in steps
        assert [run.conclusion for run in red.check_runs if run.name == "ci/test"] == ["failure"] * 2
        # The comment that a new one replaces is deleted after it: for that moment there are two.
        await theatre.until(
            lambda: all(sum(MARKER in c.body for c in pull.comments) == 1 for pull in everybody), seconds=60
        )
        log = [commit.message for commit in theatre.repository.log("main")]
        for pull in pulls:
            assert sum(f"#{pull.number} " in message for message in log if message.startswith("Merge pull")) == 1


def _said(pull: Any) -> str:
    return "".join(c.body for c in pull.comments)
