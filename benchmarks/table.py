"""A row of the table, and the table: what, measured, goal, reference, ratio."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

_MOST_OF_FAULT = 300


@dataclass(frozen=True, slots=True)
class Row:
    """One measure. Durations are seconds. `met` None means that there is no goal, or that nothing was measured.

    `value` is what the goal is about, `reference_value` the same quantity of the reference, where there is one.
    """

    name: str
    what: str
    measured: str
    value: float | None
    goal: str
    met: bool | None
    reference: str = "none"
    reference_value: float | None = None
    note: str = ""
    fault: str | None = None
    """Why there is no measure: it raised this."""

    @classmethod
    def failed(cls, name: str, error: BaseException) -> "Row":
        """A measure that raised an error: a row beside the others, in the words of the error."""
        first, *more = str(error).strip().splitlines() or [""]
        fault = f"{type(error).__name__}: {first}"[:_MOST_OF_FAULT] + " ..." * bool(more)
        return cls(name, f"measure {name}", fault, None, "", met=False, fault=fault)

    @property
    def ratio(self) -> float | None:
        """How many times the reference's value is ours: above 1 the reference takes more."""
        return self.reference_value / self.value if self.value and self.reference_value is not None else None

    @property
    def verdict(self) -> str:
        """The goal with whether it was met, as people read it."""
        if self.fault is not None:
            return "FAILED"
        word = {True: "met", False: "MISSED", None: "not judged"}[self.met]
        return f"{self.goal}: {word}" if self.goal else word


def timed(seconds: Sequence[float]) -> str:
    """Median, largest and number of some durations."""
    return f"median {seconds_text(median(seconds))}, max {seconds_text(max(seconds))} (n={len(seconds)})"


def seconds_text(seconds: float) -> str:
    """A duration with three significant figures or so."""
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 100 else f"{seconds:.0f} s"


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share (0 to 1) of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def show(console: Console, rows: Sequence[Row], title: str) -> None:
    """Print the table and, below it, how each figure came to be."""
    table = Table("what", "measured", "goal", "reference, same run", "ratio", title=title, title_justify="left")
    table.box = box.SIMPLE_HEAVY
    for row in rows:
        goal = Text(row.verdict, style="bold red" if row.met is False else "")
        ratio = "" if row.ratio is None else f"{row.ratio:.3g} x"
        table.add_row(Text(row.what), Text(row.measured), goal, Text(row.reference), ratio)
    console.print(table)
    for row in rows:
        if row.note:
            console.print(Text(f"{row.name}: {row.note}"))


def save(path: Path, rows: Sequence[Row], about: dict[str, object]) -> None:
    """Write the rows and what the run was like as JSON."""
    path.write_text(
        json.dumps({**about, "rows": [asdict(row) | {"ratio": row.ratio} for row in rows]}, indent=2) + "\n"
    )
