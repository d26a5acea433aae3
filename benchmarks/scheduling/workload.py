"""`python -m benchmarks.scheduling.workload FILE`: compare policies by the load, CI, rules and seeds of a file.

Exit code 1: IMQ missed a goal of the file. Exit code 2: the file cannot be used.
"""

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Annotated, Literal

import click
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from benchmarks.scheduling.cells import Cell
from benchmarks.scheduling.goals import Goal, flaky_goals
from benchmarks.scheduling.grid import Measured, mean_ratio, simulate
from benchmarks.scheduling.policies import ORACLE, OURS, POLICIES
from benchmarks.scheduling.report import cell_name, figure, table
from bot.cli.replay.policies import Bors, Chain, Tide, TrainPolicy
from bot.cli.replay.simulation import Policy
from bot.cli.replay.truth import Truth
from queue_engine.domain.policy import MOST_MEMBERS

DEFAULT = Path(__file__).parents[1] / "workloads" / "flaky.toml"

_DOCUMENT = Path(__file__).parents[2] / "docs" / "comparison.md"
_START, _END = "<!-- measured: make bench-policies -->", "<!-- end -->"

Share = Annotated[float, Field(ge=0, le=0.9)]
Count = Annotated[int, Field(ge=1, le=1000)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Load(_Part):
    """The pull requests."""

    per_day: float = Field(gt=0)
    pull_requests: int = Field(ge=10, le=100_000)
    failures: Share
    conflicts: Share = 0
    burst: float = Field(1, ge=1)


class CI(_Part):
    """The runs that test them."""

    minutes: float = Field(gt=0)
    flakes: Share
    runs: Count
    spread: float = Field(0.3, ge=0, le=2)
    growth: Share = 0


class Trains(_Part):
    """IMQ's planner."""

    rules: Literal["imq"]
    runs: Count | None = None
    max_size: int = Field(MOST_MEMBERS, ge=1, le=MOST_MEMBERS)
    fill_minutes: float | None = Field(None, gt=0, le=60)

    def policy(self, truth: Truth) -> Policy:
        """Return it for one team, whose usual run it learns."""
        most, wait = self.max_size, self.fill_minutes
        return TrainPolicy(truth.slots, truth.minutes, learns=True, most=most, fill_minutes=wait)


class Chained(_Part):
    """Runs on top of each other."""

    rules: Literal["chain"]
    runs: Count | None = None
    window: Count = 100
    group: Count = 1
    later_clears: bool = False
    adaptive: bool = False

    def policy(self, truth: Truth) -> Policy:
        """Return it for one team."""
        rules = self.model_dump(exclude={"rules", "runs"})
        return Chain(truth.slots, **rules)


class Batched(_Part):
    """One batch at a time, which is halved if it fails; or Tide's batch beside its first member."""

    rules: Literal["batch", "tide"]
    runs: Count | None = None
    most: Count = 1000

    def policy(self, truth: Truth) -> Policy:
        """Return it for one team."""
        return (Bors if self.rules == "batch" else Tide)(truth.slots, most=self.most)


class Limits(_Part):
    """What IMQ has to reach."""

    innocents_per_100: float | None = None
    p95_over_oracle: float | None = None
    runs_per_landing: float | None = None


Rules = Annotated[Trains | Chained | Batched, Field(discriminator="rules")]


class Workload(_Part):
    """A file."""

    seeds: list[int] = Field(min_length=1)
    load: Load
    ci: CI
    policies: Mapping[str, Rules]
    goals: Limits = Limits()

    @model_validator(mode="after")
    def _is_judged(self) -> "Workload":
        if ORACLE in self.policies:
            raise ValueError(f"{ORACLE} is always simulated: name the policy otherwise")
        if self.goals != Limits() and OURS not in self.policies:
            raise ValueError(f"goals are for the policy {OURS}, which is missing: add it, or leave the goals out")
        return self

    def cell(self, runs: int | None = None) -> Cell:
        """Return the team; `runs`: with as many at once."""
        load, ci = self.load, self.ci
        return Cell(
            load.per_day / 24,
            ci.minutes,
            load.failures,
            ci.flakes,
            runs or ci.runs,
            load.conflicts,
            ci.spread,
            load.burst,
            ci.growth,
        )


_PARTS: Mapping[object, type[_Part]] = {
    "": Workload,
    "load": Load,
    "ci": CI,
    "goals": Limits,
    "imq": Trains,
    "chain": Chained,
    "batch": Batched,
    "tide": Batched,
}
"""The keys of each table, and of each policy by its rules."""


def read(path: Path) -> Workload:
    """Read a file. Raises ValueError, whose text names each fault and what is right there."""
    try:
        return Workload.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        raise ValueError("".join(f"\n  {_fault(each)}" for each in error.errors())) from error


def _fault(error: ErrorDetails) -> str:
    place, given = [*error["loc"]], error["input"]
    part, words = place[-2] if len(place) > 1 else "", error["msg"][:1].lower() + error["msg"][1:]
    if place[:1] == ["policies"] and len(place) > 2:
        del place[2]  # the rules, of which the file has no table
    match error["type"]:
        case "missing":
            words = "is missing"
        case "union_tag_not_found":
            place, words = [*place, "rules"], "is missing"
        case "union_tag_invalid":
            place, words = [*place, "rules"], f"has to be {error['ctx']['expected_tags']}; it is {given['rules']!r}"
        case "extra_forbidden":
            words = f"is no key here, where these are: {', '.join(_PARTS[part].model_fields)}"
        case "too_short":
            words = "needs one at least"
        case "value_error":
            words = words.removeprefix("value error, ")
        case _ if not isinstance(given, dict | list):
            words = f"{words}; it is {json.dumps(given, default=str)}"
        case _:
            pass
    return f"{'.'.join(map(str, place))}: {words}" if place else words


def compare(workload: Workload, step: Callable[[str], None] = lambda _: None) -> dict[str, list[Measured]]:
    """Simulate the oracle and each policy with each seed."""
    pulls = workload.load.pull_requests
    step(ORACLE)
    found = {ORACLE: [simulate(POLICIES[ORACLE], workload.cell(), seed, pulls) for seed in workload.seeds]}
    for name, rules in workload.policies.items():
        step(name)
        found[name] = [simulate(rules.policy, workload.cell(rules.runs), seed, pulls) for seed in workload.seeds]
    return found


def figures(found: list[Measured], oracle: list[Measured]) -> dict[str, float]:
    """Return what the table shows of a policy: the means over the seeds."""
    landed = sum(len(each.outcome.order) for each in found)
    waits = mean_ratio((a.minutes(0.95), b.minutes(0.95)) for a, b in zip(found, oracle, strict=True))
    return {
        "p50_minutes": fmean(each.minutes(0.5) for each in found),
        "p95_minutes": fmean(each.minutes(0.95) for each in found),
        "p95_over_oracle": waits,
        "runs_per_landing": sum(each.outcome.runs for each in found) / max(1, landed),
        "innocents_per_100": 100 * sum(each.outcome.innocents for each in found) / max(1, landed),
        "landed": landed,
        "red_base": sum(each.outcome.red for each in found),
        "unresolved": sum(each.outcome.unresolved for each in found),
    }


def judge(workload: Workload, found: Mapping[str, list[Measured]]) -> list[Goal]:
    """Return the goals of the file with what IMQ reached."""
    limits = workload.goals.model_dump(exclude_none=True)
    if not limits:
        return []
    return flaky_goals(workload.cell(), found[OURS], found[ORACLE], limits, limits)


@click.command()
@click.argument("path", metavar="[FILE]", type=click.Path(exists=True, dir_okay=False, path_type=Path), default=DEFAULT)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--write", is_flag=True, help="Also write the tables into docs/comparison.md.")
def main(path: Path, as_json: bool, write: bool) -> None:
    """Compare policies by the load, CI, rules and seeds of a TOML file."""
    try:
        workload = read(path)
    except ValueError as error:
        raise click.UsageError(
            f"{path}: {error}\ndocs/scheduling.md has the keys, and benchmarks/workloads/{DEFAULT.name} is an example."
        ) from error
    found = compare(workload, lambda name: click.echo(f"{name}…", err=True))
    rows = {name: figures(each, found[ORACLE]) for name, each in found.items()}
    reached = judge(workload, found)
    text = tables(workload, rows, reached)
    if as_json:
        goals = [asdict(each) | {"missed": each.missed} for each in reached]
        click.echo(json.dumps({"workload": workload.model_dump(), "policies": rows, "goals": goals}, indent=2))
    else:
        click.echo(text)
    if write:
        before, _, rest = _DOCUMENT.read_text(encoding="utf-8").partition(_START)
        after = rest.partition(_END)[2]
        _DOCUMENT.write_text(f"{before}{_START}\n\n{text}\n\n{_END}{after}", encoding="utf-8")
    if any(each.missed for each in reached):
        raise SystemExit(1)


def tables(workload: Workload, rows: Mapping[str, Mapping[str, float]], reached: Sequence[Goal]) -> str:
    """Return one row for each policy, and one for each goal."""
    head = ("policy", *(name.replace("_", " ") for name in rows[ORACLE]))
    parts = [
        f"{cell_name(workload.cell())}; {workload.load.pull_requests:,} pull requests, {len(workload.seeds)} seeds.",
        table(head, ((name, *(figure(value) for value in row.values())) for name, row in rows.items())),
    ]
    if reached:
        outcomes = ((each, "MISSED" if each.missed else "reached") for each in reached)
        lines = ((each.name, f"{each.must:g}", f"{each.value:.2f}", f"{each.bound:.2f}", out) for each, out in outcomes)
        parts.append(table(("goal of IMQ", "at most", "measured", "bound", "outcome"), lines))
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()
