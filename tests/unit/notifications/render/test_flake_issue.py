"""The text of an issue about a flake: its figures, its tests, and the lines that list it."""

from dataclasses import replace
from datetime import date, timedelta
from typing import Any

from notifications.render.flake_issue import flake_issue
from queue_engine.queries.queue_states import health_of
from queue_engine.queries.queue_statistics import QueueStatistics, RerunCount

LAST = date(2026, 3, 14)
COUNT = RerunCount(
    "unit", 3, 4, 600.0, 1200.0, runs=40, failures=4, rate=0.07, people=2, pulls_before=1, first_day=date(2026, 3, 1)
)


def found(**counts: Any) -> QueueStatistics:
    """Statistics of all queues with these flakes."""
    empty: dict[str, Any] = dict.fromkeys(("flaky_checks", "flaky_jobs", "flaky_tests", "landings", "reasons"), ())
    known: dict[str, Any] = {"repository": None, "base_branch": None, "first": date(2026, 2, 13), "last": LAST}
    known |= dict.fromkeys(("median_wait", "p95_wait", "ci_seconds", "ci_seconds_per_landing", "requests"))
    health = health_of(None, None, failed=0, left=0)
    return QueueStatistics(
        **known, **{**empty, **counts}, landed=0, mean_wait={}, reruns=4, health=health, requests_per_landing=None
    )


def test_issue_has_the_figures_the_tests_and_the_lines_to_add() -> None:
    """It is ready to file."""
    text = flake_issue(
        found(flaky_checks=(COUNT,), flaky_tests=(replace(COUNT, name="pay::test_card"),)), "check", "unit"
    )
    assert text is not None
    assert text.title == "Flaky check: `unit`"
    for words in (
        "Failures: 4 in 40 runs on good changes. Estimated rate: 7.0%.",
        "Delayed pull requests: 3, by 2 authors; 1 in the period before.",
        "Waiting time: 20 min.",
        "`pay::test_card`",
        "the merge queue can rerun it twice more. Add to",
        '    - {name: "unit", until: 2026-03-28}',
    ):
        assert words in text.body


def test_issue_about_a_listed_check_says_how_to_list_it_for_longer() -> None:
    """The queue reruns it already; a listing that ended counts no more."""
    for days, words in ((0, "reruns it twice more, until that day. To list it for longer, change"), (1, "Add to")):
        listed = replace(COUNT, people=1, listed_until=LAST - timedelta(days=days))
        text = flake_issue(found(flaky_checks=(listed,)), "check", "unit")
        assert text is not None
        assert f"{words} `.github/imq.yml`:" in text.body
        assert "3, by 1 author; " in text.body


def test_foreign_names_are_inert_and_what_never_flaked_has_no_issue() -> None:
    """A check's name is anybody's text; a listed check without a flake needs no issue."""
    name = 'x", until: 2099-01-01}\n``` <!-- @acme'
    text = flake_issue(found(flaky_checks=(replace(COUNT, name=name),)), "check", name)
    assert text is not None
    assert text.title == 'Flaky check: ````x", until: 2099-01-01} ``` <! -- @acme````'
    assert "<!--" not in text.title
    assert '{name: "x\\", until: 2099-01-01} ``` <!-- @acme", until: 2026-03-28}' in text.body
    assert flake_issue(found(flaky_checks=(replace(COUNT, first_day=None),)), "check", "unit") is None
    assert flake_issue(found(flaky_jobs=(COUNT,)), "check", "unit") is None
