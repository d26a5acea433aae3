"""The live table: one line per pull request. Without a terminal, one plain line per change of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from bot.demo.sight import Place, PullSight, QueueSight
from queue_engine.domain.model import EntryStatus
from queue_engine.domain.notice import NoticeKind

_STYLES = {
    "landed": "green",
    "failed": "red",
    "cancelled": "yellow",
    "refused": "yellow",
    "updating": "cyan",
    "checking": "cyan",
    "ready": "bold cyan",
}
_ENDS = {
    NoticeKind.LANDED: "landed",
    NoticeKind.FAILED: "failed",
    NoticeKind.CANCELLED: "cancelled",
    NoticeKind.REFUSED: "refused",
    NoticeKind.HELD: "held",
}


@dataclass(frozen=True, slots=True)
class Row:
    """What the table says about one pull request; `position` as people count, from 1."""

    number: int
    title: str
    position: int | None
    status: str
    waits_for: str
    latest: str

    @property
    def line(self) -> str:
        """The same in one plain line."""
        place = f", position {self.position}" if self.position else ""
        waits = f", waits for {self.waits_for}" if self.waits_for else ""
        return f"#{self.number} {self.title}: {self.status}{place}{waits} ({self.latest})"


def rows_of(pulls: Iterable[PullSight], queue: QueueSight, latest: Mapping[int, str]) -> list[Row]:
    """The table's rows, by number."""
    found = []
    for pull in sorted(pulls, key=lambda pull: pull.number):
        place = queue.places.get(pull.number)
        position = None if place is None else place.position + 1
        waits = "" if place is None else _waits_for(place)
        event = latest.get(pull.number, "")
        found.append(Row(pull.number, pull.title, position, _status(pull, place), waits, event))
    return found


def render(rows: Sequence[Row], *, title: str) -> Table:
    """The rows as a table for a terminal."""
    table = Table(title=title, title_justify="left", expand=False)
    for heading in ("PR", "title", "pos", "status", "waits for", "latest"):
        table.add_column(heading, justify="right" if heading in ("PR", "pos") else "left", overflow="fold")
    for row in rows:
        status = Text(row.status, style=_STYLES.get(row.status, ""))
        # Titles and events are other people's words: no markup is read in them.
        cells = (Text(f"#{row.number}"), Text(row.title), Text(str(row.position or "")), status)
        table.add_row(*cells, Text(row.waits_for), Text(row.latest))
    return table


def changed(before: Sequence[Row], after: Sequence[Row]) -> list[Row]:
    """The rows that say something new."""
    known = set(before)
    return [row for row in after if row not in known]


def _status(pull: PullSight, place: Place | None) -> str:
    if place is not None:
        return place.status
    if pull.merged:
        return "landed"
    if pull.told in _ENDS:
        return _ENDS[pull.told]
    return "labelled" if pull.labelled else "open"


def _waits_for(place: Place) -> str:
    match place.status:
        case EntryStatus.PENDING:
            return f"{place.position} ahead" if place.position else "a look"
        case EntryStatus.UPDATING:
            return "its update"
        case EntryStatus.CHECKING:
            return ", ".join(place.awaited) or "its checks"
        case EntryStatus.READY:
            return "the merge"
        case _:
            return ""
