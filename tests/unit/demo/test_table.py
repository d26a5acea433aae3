"""The table says where each pull request stands, in a terminal and without one."""

from rich.console import Console

from imq_demo.observe import ObservedPullRequest, ObservedQueue, QueuePosition
from imq_demo.table import changed, render, rows_of
from queue_engine.domain.notice import NoticeKind
from queue_engine.domain.reasons import Reason
from tests.unit.demo.examples import comment, landed, left

QUEUED = ObservedPullRequest(2, "Warm [bold]the pot[/bold]", "open", merged=False, labeled=True)
WAITING = ObservedPullRequest(3, "Serve biscuits", "open", merged=False, labeled=True)
QUEUE = ObservedQueue({2: QueuePosition(0, "checking", ("ci/test", "ci/lint")), 3: QueuePosition(1, "pending")})


def lines(pulls: list[ObservedPullRequest], queue: ObservedQueue = QUEUE) -> list[str]:
    """The plain lines of all rows."""
    return [row.line for row in rows_of(pulls, queue, {2: "checking"})]


def test_rows_queued_show_position_and_pending_checks() -> None:
    """Positions count from 1, as people count; the checks that are awaited have their names."""
    assert lines([WAITING, QUEUED]) == [
        "#2 Warm [bold]the pot[/bold]: checking, position 1, waits for ci/test, ci/lint (checking)",
        "#3 Serve biscuits: pending, position 2, waits for 1 ahead ()",
    ]


def test_rows_outside_the_queue_show_the_outcome() -> None:
    """The table describes a dequeued pull request by what people see on GitHub."""
    closed = left(5, comment(NoticeKind.CANCELLED, Reason.CLOSED), state="closed")
    fresh = ObservedPullRequest(6, "Change 6", "open", merged=False, labeled=False)
    assert lines([landed(1), left(4), closed, fresh], ObservedQueue()) == [
        "#1 Change 1: landed ()",
        "#4 Change 4: failed ()",
        "#5 Change 5: cancelled ()",
        "#6 Change 6: open ()",
    ]


def test_render_titles_are_shown_as_they_are() -> None:
    """A title is somebody else's text: markup in it is not read."""
    console = Console(width=120)
    with console.capture() as captured:
        console.print(render(rows_of([QUEUED], QUEUE, {}), title="tea-house/teapot"))
    assert "Warm [bold]the pot[/bold]" in captured.get()
    assert "ci/test, ci/lint" in captured.get()


def test_changed_returns_only_new_rows() -> None:
    """Without a terminal nothing is said twice."""
    before = rows_of([QUEUED, WAITING], QUEUE, {})
    after = rows_of([QUEUED, WAITING], QUEUE, {3: "ada closes it"})
    assert changed(before, before) == []
    assert [row.number for row in changed(before, after)] == [3]
