"""P2, for real: a process killed with `kill -9` at each step of the way, on both databases.

The run on PostgreSQL belongs to the long gate: that on SQLite has more steps, and the campaign kills on PostgreSQL.

What the next start does, by what was stored when the process died:

- Nothing yet of a delivery: GitHub notes a failure; the sweep has it sent again, or finds the label itself.
- The delivery and its job, unanswered: it does the job; the delivery's repetition is known.
- A leased job: it does the job again. Jobs read first and change by compare-and-set.
- A call of the API whose label is not set: a place and a running key. It frees the place; the same call again is done
  when the key's lease has ended.
- A call after its label, before its answer: it enqueues the pull request; the same call again finds its key and
  entry.
- A submitted batch without its id: it submits again, and the provider finds the batch.
- `updating`, whether the request was sent or not: it reads the pull request, and asks again only if its head is still
  the old one.
- `checking`: it reads the checks at once.
- `merge_requested_at`, with or without GitHub's answer: it reads the pull request, more than once if GitHub may lag.
  If it is merged, the trees are compared; else it decides again.
- Landed, with outbox items due: it sends them.
- `maybe_created`: it finds the comment by its marker, and edits it.

`tests/campaign/test_campaign.py` kills workers of the core at random instants, with a seed that it prints
(`IMQ_CAMPAIGN_SEED=… IMQ_CAMPAIGN_SECONDS=60 make test ARGS=tests/campaign`). In `test_github_campaign.py` two webs and
three workers land pull requests on an emulator whose reads lag. Processes are killed every second and PostgreSQL is
restarted; no queue waits for a minute.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.template import Template
from tests.acceptance.world import LABEL
from tests.process.processes import a_theatre

pytestmark = [pytest.mark.process, pytest.mark.slow]

MARKER = "<!-- imq:comment"
REFUSE = {".github/imq.yml": "when_not_ready: refuse\n"}
RERUN = "POST /repos/{owner}/{repo}/actions/runs/{run_id}/rerun-failed-jobs"


@pytest.mark.thorough
@pytest.mark.long("postgres")
async def test_bot_killed_at_each_step_lands_every_green_pull_request_once(database_url: str, tmp_path: Path) -> None:
    """Killed before and after each kind of request took effect, the next start carries on: one merge, one comment."""
    async with a_theatre(database_url, tmp_path) as theatre:
        theatre.template = Template()
        theatre.repository.push("main", REFUSE, "Refuse red heads", by="rhea")
        pulls = [
            theatre.repository.open_pull_request(f"Add {n}", head=f"add-{n}", by="mona", files={f"new{n}.py": f"{n}\n"})
            for n in range(4)
        ]
        red = theatre.repository.open_pull_request("Red", head="red", by="mona", files={"red.txt": "99\n"})
        await theatre.start()
        await theatre.next_second()
        # What is read lies between writes; that every instant there is safe is shown on one database.
        reading = database_url.startswith("sqlite")
        theatre.kill_once_at_each_step(reading=reading, only_once=RERUN)
        # The first pull request meets the steps of queueing alone.
        pulls[0].label(LABEL, by="mona")
        await theatre.until(lambda: pulls[0].merged)
        for pull in (red, *pulls[1:]):
            pull.label(LABEL, by="mona")
        everybody = (*pulls, red)

        def over() -> bool:
            return all(pull.merged for pull in pulls) and all(LABEL not in pull.labels for pull in everybody)

        await theatre.until(over)
        # Comments may wait half a minute for the points that merges leave.
        await theatre.until(lambda: all("anded" in _text_of(pull) for pull in pulls))
        steps = {step.rpartition(" ")[0] for step in theatre.deaths}
        wanted = {"POST", "PUT", "DELETE"} | ({"GET"} if reading else set())
        assert {step.split(" ")[0] for step in steps} >= wanted, theatre.deaths
        assert len(theatre.deaths) >= (20 if reading else 12), theatre.deaths
        assert not red.merged
        # What failed was run again once, whenever the bot was killed over it.
        assert RERUN in steps
        assert [run.conclusion for run in red.check_runs if run.name == "ci/test"] == ["failure"] * 2
        # The comment that a new one replaces is deleted after it: for that moment there are two.
        await theatre.until(lambda: all(sum(MARKER in c.body for c in pull.comments) == 1 for pull in everybody))
        log = [commit.message for commit in theatre.repository.log("main")]
        for pull in pulls:
            assert sum(f"#{pull.number} " in message for message in log if message.startswith("Merge pull")) == 1


def _text_of(pull: Any) -> str:
    return "".join(c.body for c in pull.comments)
