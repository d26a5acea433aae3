"""A policy that writes what it does as IMQ's timeline has it."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.scheduling.cells import Cell, DrawnTruth
from bot.cli.replay.policies import TrainPolicy
from bot.cli.replay.simulation import Action, Cancel, Eject, Land, Simulation

START = datetime(2026, 3, 2, 8, tzinfo=UTC)


@dataclass
class Recorder:
    """The planner, and the events of its queue. Pull requests are numbered from 1."""

    planner: TrainPolicy
    slots: int
    lines: list[str] = field(default_factory=list)
    runs: dict[int, tuple[int, ...]] = field(default_factory=dict)
    landed: set[int] = field(default_factory=set)

    def write(self, event: str, now: float, number: int | None = None, reason: str | None = None, **data: Any) -> None:
        at = (START + timedelta(minutes=now)).isoformat()
        where = {"id": len(self.lines) + 1, "at": at, "repository": "acme/widgets", "base_branch": "main"}
        self.lines.append(json.dumps({**where, "event": event, "number": number, "reason": reason, "data": data}))

    def arrived(self, pull: int, now: float) -> None:
        self.write("queued", now, pull + 1)
        self.planner.arrived(pull, now)

    def started(self, run: int, content: tuple[int, ...], now: float) -> None:
        self.runs[run] = content
        self.write("run_started", now, run=run, members=[each + 1 for each in content], slots=self.slots)
        self.planner.started(run, content, now)

    def finished(self, run: int, passed: bool, now: float) -> None:
        if passed:
            self.write("run_passed", now, run=run)
        else:
            self.write("run_ended", now, run=run, outcome="failed")
        self.planner.finished(run, passed, now)

    def action(self, now: float) -> Action | None:
        action = self.planner.action(now)
        match action:
            case Land(run):
                for each in self.runs[run]:
                    if each not in self.landed:
                        self.landed.add(each)
                        self.write("landed", now, each + 1)
            case Eject(pull):
                self.write("failed", now, pull + 1, "checks_failed")
            case Cancel(run):
                self.write("run_ended", now, run=run, outcome="cancelled")
        return action


def recorded(cell: Cell, seed: int, pulls: int) -> list[str]:
    """The timeline of a team that these are the figures of."""
    recorder = Recorder(TrainPolicy(cell.slots, 10.0, learns=True), cell.slots)
    Simulation(DrawnTruth(cell, seed), recorder, pulls, warm=0).run()
    return recorder.lines
