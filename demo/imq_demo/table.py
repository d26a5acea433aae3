"""Render the live table: a line per pull request. Without a terminal, a plain line per change."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from imq_demo.observe import ObservedPullRequest, ObservedQueue, QueuePosition
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
    NoticeKind.NOT_READY: "not ready",
}


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table; `position` counts from 1."""

    number: int
    title: str
    position: int | None
    status: str
    waits_for: str
    latest: str

    @property
    def line(self) -> str:
        """Format the row as one plain line."""
        place = f", position {self.position}" if self.position else ""
        waits = f", waits for {self.waits_for}" if self.waits_for else ""
        return f"#{self.number} {self.title}: {self.status}{place}{waits} ({self.latest})"


def rows_of(pulls: Iterable[ObservedPullRequest], queue: ObservedQueue, latest: Mapping[int, str]) -> list[Row]:
    """Return the table's rows, by number."""
    found = []
    for pull in sorted(pulls, key=lambda pull: pull.number):
        place = queue.places.get(pull.number)
        position = None if place is None else place.position + 1
        waits = "" if place is None else _waits_for(place)
        event = latest.get(pull.number, "")
        found.append(Row(pull.number, pull.title, position, _status(pull, place), waits, event))
    return found


def render(rows: Sequence[Row], *, title: str) -> Table:
    """Render the rows for a terminal."""
    table = Table(title=title, title_justify="left", expand=False)
    for heading in ("PR", "title", "pos", "status", "waits for", "latest"):
        table.add_column(heading, justify="right" if heading in ("PR", "pos") else "left", overflow="fold")
    for row in rows:
        status = Text(row.status, style=_STYLES.get(row.status, ""))
        # Titles and events are foreign text, so they are rendered without markup.
        cells = (Text(f"#{row.number}"), Text(row.title), Text(str(row.position or "")), status)
        table.add_row(*cells, Text(row.waits_for), Text(row.latest))
    return table


def changed(before: Sequence[Row], after: Sequence[Row]) -> list[Row]:
    """Return the rows that differ from those before."""
    known = set(before)
    return [row for row in after if row not in known]


def _status(pull: ObservedPullRequest, place: QueuePosition | None) -> str:
    if place is not None:
        return place.status
    if pull.merged:
        return "landed"
    if pull.notice_kind in _ENDS:
        return _ENDS[pull.notice_kind]
    return "labeled" if pull.labeled else "open"


def _waits_for(place: QueuePosition) -> str:
    match place.status:
        case EntryStatus.PENDING:
            return f"{place.position} ahead" if place.position else "its next pass"
        case EntryStatus.UPDATING:
            return "its update"
        case EntryStatus.CHECKING:
            return ", ".join(place.pending_checks) or "its checks"
        case EntryStatus.READY:
            return "the merge"
        case _:
            return ""
