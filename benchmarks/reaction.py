"""How long it takes from the last required check's report to the merge call, with a real process in real time."""

import random
import tempfile
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.pollers import Poller
from benchmarks.sizes import Size
from benchmarks.stage import a_stage
from benchmarks.table import Row, seconds_text, timed
from benchmarks.virtual import client_of_poller, virtual_time
from github_emulator import CISettings, EmulatorServer, GitHub, PullRequestHandle
from tests.acceptance.starting import SharedClock
from tests.acceptance.world import LABEL
from tests.process.processes import a_theatre

GOAL_SECONDS = 0.3
MERGE = "PUT /repos/{owner}/{repo}/pulls/{number}/merge"
DEFAULTS = {"IMQ_INTERVAL_SECONDS": "30", "IMQ_SWEEP_SECONDS": "600", "IMQ_LEASE_SECONDS": "30"}
"""The settings that people have; the theatre's own are quicker, and would hide a lost wake-up."""


class Reports:
    """When the latest check run on each commit was completed, which is when its webhook leaves."""

    def __init__(self, github: GitHub, names: frozenset[str]) -> None:
        self._at: dict[str, datetime] = {}
        self._names = names
        self._clock = github.clock
        github.webhooks.observers.append(self._observe)

    def reactions(self, server: EmulatorServer, pulls: list[PullRequestHandle]) -> list[float]:
        """Seconds from the last report to the first merge call of each pull request."""
        merges: dict[str, datetime] = {}
        for exchange in server.requests.of(MERGE):
            merges.setdefault(exchange.path.split("/")[-2], exchange.at)
        return [(merges[str(pull.number)] - self._at[pull.head_sha]).total_seconds() for pull in pulls]

    def _observe(self, event: str, payload: Mapping[str, Any]) -> None:
        if event == "check_run" and payload["action"] == "completed" and payload["check_run"]["name"] in self._names:
            self._at[payload["check_run"]["head_sha"]] = self._clock.now()


async def reaction_row(size: Size, seed: int) -> list[Row]:
    """The row: IMQ as its own process on SQLite, against the poller on an emulator of its own."""
    count, by_poller = size.of(
        (12, 20), (3, 3), (1, 1)
    )  # A quarter of a minute of landings: more would wait for their share of GitHub's limits.
    ours = await imq_reactions(count, random.Random(seed))
    theirs = await _poller(by_poller, seed)
    return [
        Row(
            name="reaction",
            what="last required check reported -> merge call received, GitHub answers in 0 ms",
            measured=timed(ours),
            value=median(ours),
            goal=f"< {GOAL_SECONDS} s, each",
            met=max(ours) < GOAL_SECONDS,
            reference=f"poller {timed(theirs)}, virtual time",
            reference_value=median(theirs),
            note="the bot is a process of its own on SQLite with default settings; two required checks; smallest "
            f"{seconds_text(min(ours))}",
        )
    ]


async def imq_reactions(count: int, chance: random.Random) -> list[float]:
    """Seconds from the last required report to the merge request, for each of so many pull requests."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        async with a_theatre(f"sqlite:///{directory / 'imq.db'}", directory) as theatre:
            theatre.environment |= DEFAULTS
            lint = theatre.repository.add_ci(
                "ci/lint", settings=CISettings(workflow="lint", duration=timedelta(seconds=0.5))
            )
            required = [(check, lint.app.id) for check in ("ci/test", "ci/lint")]
            theatre.repository.protect("main", required_checks=required)
            reports = Reports(theatre.github, frozenset({"ci/test", "ci/lint"}))
            await theatre.start()
            pulls = []
            for number in range(count):
                lint.duration = timedelta(seconds=chance.uniform(0.6, 1.2))
                pull = theatre.repository.open_pull_request(
                    f"Add {number}", head=f"add-{number}", by="mona", files={f"new{number}.py": f"{number}\n"}
                )
                pull.label(LABEL, by="mona")
                await theatre.until(lambda pull=pull: pull.merged)  # type: ignore[misc]
                pulls.append(pull)
            return reports.reactions(theatre.server, pulls)


async def _poller(count: int, seed: int) -> list[float]:
    """The poller's, in virtual time: its interval is what counts, and a busy machine cannot make it slower.

    Each pull request has a base branch of its own, so that all are waited for at the same time.
    """
    clock = SharedClock()
    with tempfile.TemporaryDirectory() as name:
        second, jitter = timedelta(seconds=1), timedelta(seconds=6)
        async with (
            a_stage(Path(name), clock, ci_time=second, jitter=jitter, seed=seed) as stage,
            Poller(stage) as poller,
            virtual_time(stage, clock, client_of_poller(poller)) as virtual,
        ):
            reports = Reports(stage.github, frozenset({stage.ci.name}))
            pulls = []
            for number in range(count):
                base = f"base-{number}"
                stage.repository.create_branch(base, "main")
                required = [(stage.ci.name, stage.ci.app.id)]
                stage.repository.protect(base, required_checks=required, strict=True)
                # A commit of its own, because a commit is tested once, and each one's test takes another time.
                pulls.append(stage.open(f"change-{number}", base=base))
                poller.queue(pulls[-1].number, base)
            await virtual.until(lambda: all(pull.merged for pull in pulls))
            return reports.reactions(stage.server, pulls)
