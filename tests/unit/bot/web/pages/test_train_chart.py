"""The picture of a queue's trains: each run beneath the failed one that it bisects, and one member's path."""

from xml.etree import ElementTree as Tree

from bot.web.pages.queue import chart_rows, draw_trains, sentence
from queue_engine.domain.run import RunState
from queue_engine.queries.train_status import FailingMembers, TrainStatus
from tests.unit.queue_engine.queries.test_train_status import run

BISECTED = TrainStatus(
    runs=(run(31, 4, 5), run(32, 1, 2), run(33, 9, 3, tested={3}, state=RunState.PASSED)),
    failed=(FailingMembers((1, 2, 3), frozenset({1, 2})),),
)


def elements(svg: str, tag: str, of: str) -> list[Tree.Element]:
    found = Tree.fromstring(svg).iter(tag)
    return [each for each in found if of in each.get("class", "").split()]


def test_chart_rows_have_a_bisection_beneath_its_failed_run() -> None:
    """A reader sees which run looks for the cause, and who is cleared."""
    assert [sentence(row) for row in chart_rows(BISECTED)] == [
        "Failed run, the cause is one of the marked: #1 suspect, #2 suspect, #3 cleared",
        "Run 32, checks run: #1 tested, #2 tested",
        "Run 31, checks run: #4 tested, #5 tested",
        "Run 33, passed: #9 carried, #3 tested",
    ]
    assert [row.indented for row in chart_rows(BISECTED)] == [False, True, False, False]


def test_drawing_marks_the_path_of_one_member() -> None:
    """Its boxes in all runs are marked, and joined by a line."""
    svg = draw_trains(BISECTED, member=1, address="/repositories/octo/garden/branches/main")
    assert len(elements(svg, "rect", "marked")) == 2
    (path,) = elements(svg, "polyline", "path")
    assert len(path.get("points", "").split()) == 2
    addresses = [each.get("href") for each in Tree.fromstring(svg).iter("a")]
    assert "/repositories/octo/garden/branches/main?member=9#trains" in addresses


def test_drawing_of_a_member_in_no_run_marks_nothing() -> None:
    """An address that names another pull request shows the trains as they are."""
    svg = draw_trains(BISECTED, member=77, address="/x")
    assert elements(svg, "polyline", "path") == []
    assert elements(svg, "rect", "marked") == []


def test_drawing_of_a_long_train_names_how_many_more_there_are() -> None:
    """A hundred members do not fit on a page."""
    svg = draw_trains(TrainStatus(runs=(run(1, *range(1, 101)),)), member=None, address="/x")
    assert len(elements(svg, "rect", "member")) == 16
    assert "+84" in svg
    assert draw_trains(TrainStatus(), member=None, address="/x") == ""
