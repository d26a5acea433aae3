"""The pull requests of others come between the many of one author, and none waits without end."""

from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.fair_share import GOAL, HIGH_LOAD, LOAD, compared, likely, ratio
from queue_engine.config.model import FairShareRule, Policy
from queue_engine.rules.priority import (
    AGENT_LANDINGS,
    AGENTS,
    LANDINGS,
    LONGEST,
    UNKNOWN,
    FairShare,
    earliest_key,
    has_waited,
    share_behind,
    share_of,
    yields_after,
    yields_to,
)
from tests.unit.queue_engine.examples import CHECKING, READY, UPDATING, entry

HOUR = timedelta(hours=1)
MINUTE = 60_000
POLICY = Policy(fair_share=FairShareRule(agents=("robot-*",)))
KEYS = {"status": CHECKING, "author": "x[bot]", "rank": 9, "share_delay": 5}


@pytest.mark.parametrize(
    ("author", "share"),
    [
        ("Ada", "ada"),
        ("dependabot[bot]", AGENTS),
        ("renovate[bot]", AGENTS),
        ("Robot-7", AGENTS),
        ("robotics", "robotics"),
    ],
)
def test_share_is_an_author_or_all_agents_together(author: str, share: str) -> None:
    """Fifty accounts of agents get no fifty shares."""
    assert share_of(author, POLICY) == share


def test_author_with_few_entries_keeps_the_place_by_arrival() -> None:
    """P3 as ever, whatever others have in the queue."""
    queued = [("ada", 0, 0), ("ada", 1, 0), *((f"x{number}[bot]", 0, number) for number in range(50))]
    assert earliest_key("ada", queued, [], POLICY, arrived=5) == 5
    assert earliest_key("bob", queued, [], POLICY, arrived=5) == 5


def test_further_entries_count_as_later_by_an_interval_of_landings() -> None:
    """The interval follows how long landings take on this branch."""
    queued = [("ada", 0, 0), ("ada", 1, 0), ("ada", 2, 0)]
    after_an_hour = LANDINGS * HOUR // timedelta(milliseconds=1)
    assert earliest_key("ada", queued, [HOUR] * 3, POLICY, arrived=5) == 2 + after_an_hour
    assert earliest_key("ada", queued, [], POLICY, arrived=5) == 2 + LANDINGS * UNKNOWN // timedelta(milliseconds=1)
    assert earliest_key("ada", queued, [HOUR], Policy(fair_share=FairShareRule(enabled=False)), arrived=5) == 5
    assert earliest_key("ada", queued, [HOUR], Policy(fair_share=FairShareRule(waiting=4)), arrived=5) == 5
    assert earliest_key("ada", queued, [HOUR], POLICY, arrived=1) == 1, "answered late, but it arrived as the second"


@given(
    st.lists(st.tuples(st.sampled_from(["ada", "bob", "x[bot]", "y[bot]"]), st.integers(0, 600)), max_size=60),
    st.integers(1, 200),
)
@settings(max_examples=100, deadline=None)
def test_share_is_first_in_first_out_and_no_key_is_far_from_its_arrival(
    joining: list[tuple[str, int]], minutes: int
) -> None:
    """Within a share the order is by arrival; a key is never before the arrival, and bounded, so nothing starves."""
    queued: list[tuple[str, int, int]] = []
    last: dict[str, int] = {}
    at = 0
    for author, later in joining:
        at += later * MINUTE
        key = earliest_key(author, queued, [timedelta(minutes=minutes)], POLICY, arrived=at)
        assert at <= key <= at + LONGEST // timedelta(milliseconds=1)
        share = share_of(author, POLICY)
        assert key >= last.get(share, 0)
        last[share] = key
        queued.append((author, at, key - at))


@pytest.mark.parametrize("load", [LOAD, HIGH_LOAD])
def test_fifty_agents_delay_people_by_at_most_a_tenth(load: float) -> None:
    """In simulated time: p95 of people's time in queue, with and without the agents; by arrival it is a multiple."""
    pairs = compared(range(1, 9), landings=1000, load=load)
    low, high = likely(pairs, Random(1))
    assert 1 < low <= ratio(pairs) <= high
    assert ratio(pairs) <= GOAL
    assert ratio(compared([1], landings=300, load=load, policy=Policy(fair_share=FairShareRule(enabled=False)))) > 4


def test_agents_together_get_a_quarter_of_the_landings_ahead_of_others_that_a_person_gets() -> None:
    """Their interval is four times as long, whichever agent queues."""
    queued = [(f"x{number}[bot]", number, 0) for number in range(3)]
    after = AGENT_LANDINGS * HOUR // timedelta(milliseconds=1)
    assert earliest_key("robot-7", queued, [HOUR] * 3, POLICY, arrived=5) == 2 + after


def test_checked_entry_of_an_agent_yields_to_a_person_whose_key_is_earlier() -> None:
    """It began because no person waited. What keeps its place by arrival, or is about to land, does not yield."""
    front = entry(**KEYS)
    bot, late, person = entry(author="y[bot]", rank=3), entry(author="ada", rank=9), entry(author="ada", rank=8)
    assert yields_to(front, [bot, late, person], POLICY) is person
    assert yields_to(replace(front, author="robot-7"), [person], POLICY) is person
    assert yields_to(front, [bot, late], POLICY) is None
    for stays in (
        {"share_delay": 0},
        {"author": "eve"},
        {"priority": 1},
        {"hotfix": True},
        {"status": READY},
        {"status": UPDATING},
    ):
        assert yields_to(entry(**{**KEYS, **stays}), [person], POLICY) is None, stays
    off = replace(POLICY, fair_share=replace(POLICY.fair_share, enabled=False))
    assert yields_to(front, [person], off) is None


def test_run_ends_for_people_in_its_first_two_thirds_and_after_two_usual_ones() -> None:
    """P5: the last third is not lost, so agents land however many people come; one that hangs delays people no more."""
    shares = (0.0, 0.66, 0.67, 1.0, 1.99, 2.0, 9.0)
    assert [each for each in shares if yields_after(each, late=False)] == [0.0, 0.66, 2.0, 9.0]
    assert [each for each in shares if yields_after(each, late=True)] == [2.0, 9.0]


def test_entry_of_an_agent_has_waited_after_half_of_the_time_until_its_key() -> None:
    """P5: what has not landed when its key is reached comes between people when all of them wait."""
    assert [now for now in range(2, 9) if has_waited(2, 8, now)] == [5, 6, 7, 8]


def test_entry_behind_later_ones_names_its_share() -> None:
    """`/why` explains it without blame; a few entries, and those behind a priority, need no explanation."""
    late = entry(seq=3, position=3, author="Ada", share_delay=9)
    first, second = entry(seq=1, position=0, author="ada"), entry(seq=2, position=1, author="ada")
    later = entry(seq=4, position=2, author="bob")
    assert share_behind([first, second, later, late], late) == FairShare("Ada", 3)
    assert share_behind([first, second, late], late) is None
    assert share_behind([first, replace(later, priority=1), late], late) is None
    assert share_behind([first, later, late], replace(late, share_delay=0)) is None
    agents = replace(late, author="x[bot]")
    assert share_behind([later, agents], agents) == FairShare("x[bot]", 0)
