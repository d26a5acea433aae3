"""Draw the trains of a queue as SVG: each run with its members, beneath the failed run that it bisects.

The path of one member through the runs is marked. `charts.css` has the colours; each row also says in words what it is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as Tree

from queue_engine.domain.run import Run, RunState
from queue_engine.queries.train_status import FailingMembers, TrainStatus

_ROW, _BOX, _GAP, _LEFT, _INDENT = 44, 62, 12, 190, 24
_MOST_BOXES = 16
"""A row names the members beyond by their number only."""
_STATES = {
    RunState.BUILDING: "is built",
    RunState.TESTING: "checks run",
    RunState.PASSED: "passed",
    RunState.LANDING: "lands",
    RunState.ENDED: "ended",
}
LEGEND = {
    "tested": "the run decides about it",
    "carried": "it passed before, and is tested along",
    "suspect": "it may be the cause of the failure",
    "cleared": "it passed since",
}
"""What each class of a box means."""


@dataclass(frozen=True, slots=True)
class ChartRow:
    """One run: its name, its state in words, and its members with what each is to it."""

    name: str
    text: str
    members: tuple[tuple[int, str], ...]
    """Numbers in order, with the class of each box: tested, carried, suspect or cleared."""
    indented: bool = False
    """Whether it bisects the failed run above."""


def chart_rows(trains: TrainStatus) -> list[ChartRow]:
    """Return the rows in order: each failed run with the runs that bisect it, then the others."""
    rows: list[ChartRow] = []
    placed: set[int | None] = set()
    for failed in trains.failed:
        rows.append(_failed(failed))
        for run in trains.runs:
            if run.id not in placed and failed.suspects & run.tested:
                placed.add(run.id)
                rows.append(_row(run, indented=True))
    rows += (_row(run) for run in trains.runs if run.id not in placed)
    return rows


def _failed(failed: FailingMembers) -> ChartRow:
    members = tuple((each, "suspect" if each in failed.suspects else "cleared") for each in failed.members)
    return ChartRow("Failed run", "the cause is one of the marked", members)


def _row(run: Run, *, indented: bool = False) -> ChartRow:
    assert run.state is not None
    members = tuple((each, "tested" if each in run.tested else "carried") for each in run.numbers)
    return ChartRow(f"Run {run.id}", _STATES[run.state], members, indented)


def legend(rows: Sequence[ChartRow]) -> list[tuple[str, str]]:
    """Return the classes of boxes that these rows have, with what each means."""
    found = {kind for row in rows for _, kind in row.members}
    return [(kind, meaning) for kind, meaning in LEGEND.items() if kind in found]


def draw_trains(trains: TrainStatus, *, member: int | None, address: str) -> str:
    """Draw the rows; a box leads to `address` with the path of its member. Returns "" where there is no row."""
    rows = chart_rows(trains)
    if not rows:
        return ""
    boxes = min(_MOST_BOXES, max(len(row.members) for row in rows))
    width, height = _LEFT + _INDENT + (boxes + 1) * (_BOX + _GAP), _ROW * len(rows) + 8
    svg = Tree.Element(
        "svg",
        {
            "class": "chart train",
            "viewBox": f"0 0 {width} {height}",
            "width": str(width),
            "height": str(height),
            "role": "group",
            "aria-labelledby": "trains-title",
            "aria-describedby": "trains-description",
        },
    )
    Tree.SubElement(svg, "title", {"id": "trains-title"}).text = "Trains"
    Tree.SubElement(svg, "desc", {"id": "trains-description"}).text = ". ".join(map(sentence, rows))
    path = [(x, y) for number, x, y in _places(rows) if number == member]
    if len(path) > 1:
        points = " ".join(f"{x + _BOX // 2},{y + 13}" for x, y in path)
        Tree.SubElement(svg, "polyline", {"class": "path", "points": points})
    for place, row in enumerate(rows):
        _draw_row(svg, row, place, member, address)
    return Tree.tostring(svg, encoding="unicode")


def sentence(row: ChartRow) -> str:
    """Say a row in words."""
    return f"{row.name}, {row.text}: {', '.join(f'#{number} {kind}' for number, kind in row.members)}"


def _places(rows: Sequence[ChartRow]) -> Iterator[tuple[int, int, int]]:
    """Yield each drawn member with the corner of its box."""
    for place, row in enumerate(rows):
        for index, (number, _) in enumerate(row.members[:_MOST_BOXES]):
            yield number, _start(row) + index * (_BOX + _GAP), place * _ROW + 10


def _start(row: ChartRow) -> int:
    return _LEFT + (_INDENT if row.indented else 0)


def _draw_row(svg: Tree.Element, row: ChartRow, place: int, member: int | None, address: str) -> None:
    y = place * _ROW + 10
    name = Tree.SubElement(svg, "text", {"class": "name", "x": str(_INDENT if row.indented else 4), "y": str(y + 18)})
    name.text = f"{row.name}: {row.text}" if len(row.text) < 20 else row.name
    end = _start(row) + min(len(row.members), _MOST_BOXES) * (_BOX + _GAP) - _GAP
    line = {"class": "track", "x1": str(_start(row)), "x2": str(end), "y1": str(y + 13), "y2": str(y + 13)}
    Tree.SubElement(svg, "line", line)
    for index, (number, kind) in enumerate(row.members[:_MOST_BOXES]):
        _draw_box(svg, number, kind, (_start(row) + index * (_BOX + _GAP), y), number == member, address)
    more = len(row.members) - _MOST_BOXES
    if more > 0:
        rest = Tree.SubElement(svg, "text", {"class": "name", "x": str(end + _GAP), "y": str(y + 18)})
        rest.text = f"+{more}"


def _draw_box(svg: Tree.Element, number: int, kind: str, corner: tuple[int, int], marked: bool, address: str) -> None:
    x, y = corner
    link = Tree.SubElement(svg, "a", {"href": f"{address}?member={number}#trains"})
    Tree.SubElement(link, "title").text = f"Pull request #{number}, {kind}"
    classes = f"member {kind}{' marked' if marked else ''}"
    box = {"class": classes, "x": str(x), "y": str(y), "width": str(_BOX), "height": "26", "rx": "5"}
    Tree.SubElement(link, "rect", box)
    Tree.SubElement(link, "text", {"class": "label", "x": str(x + _BOX // 2), "y": str(y + 18)}).text = f"#{number}"
