"""The minutes that a branch's workflows spend on trees that were tested before. Pure."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from bot.gateway.doctor_reads import WorkflowTime
from queue_engine.domain.facts import RequiredCheck

PERIOD = timedelta(days=7)
_PAGE = "docs/proof.md#spare-the-second-test"


@dataclass(frozen=True, slots=True)
class BaseRuns:
    """What the workflows of a branch did within `PERIOD`, beside IMQ's own record."""

    landings: int
    proved: frozenset[str]
    """The landed commits whose very tree CI had tested before."""
    runs: tuple[WorkflowTime, ...]

    def minutes(self) -> dict[str, int]:
        """Return the minutes on tested trees by workflow, the most first."""
        spent = defaultdict[str, timedelta](timedelta)
        for run in self.runs:
            if run.commit in self.proved:
                spent[run.name] += run.took
        found = {name: round(each.total_seconds() / 60) for name, each in spent.items()}
        return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))


def described(branch: str, found: BaseRuns, checks: Collection[RequiredCheck]) -> str | None:
    """Say what tests the same trees again, and what the lines save in a week; None without such runs."""
    minutes = found.minutes()
    if not any(minutes.values()):
        return None
    named = ", ".join(f"{name} {count:,}" for name, count in minutes.items())
    taken = round(sum((each.took for each in found.runs), timedelta()).total_seconds() / 60)
    how = "The workflow lines" if checks else "`merge.tested_refs` and the workflow lines"
    return (
        f"in {PERIOD.days} days, {len(found.proved)} of {found.landings} landings on {branch} had the very tree that "
        f"CI had tested. Its workflows took {sum(minutes.values()):,} of {taken:,} minutes on these trees: {named}. "
        f"{how} of {_PAGE} save them, as far as these workflows only test"
    )
