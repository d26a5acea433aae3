"""What the comparison of trains counts, and when it says that a promise was broken."""

from dataclasses import replace

from rich.console import Console

from imq_demo.trains.figures import BaseState, Figures, problems
from imq_demo.trains.run import failing_words, figures_table, saved_words, sooner_words
from imq_demo.trains.train_changes import changes_of

KEPT = Figures(
    name="one by one",
    seconds=40.0,
    landed=(10.0, 30.0, 20.0, 20.0),
    bad_landed=(),
    good_left=(),
    ejected=1,
    runs=6,
    requests=50,
    tips=(BaseState("a" * 40, True, True),),
)


def test_runs_and_requests_are_counted_for_each_landing() -> None:
    """Ejected pull requests cost runs, and are no landings."""
    assert (KEPT.runs_per_landing, KEPT.requests_per_landing, KEPT.waited) == (1.5, 12.5, (20.0, 30.0))
    none = replace(KEPT, landed=())
    assert (none.runs_per_landing, none.waited) == (6.0, (0.0, 0.0))


def test_each_broken_promise_names_the_mode() -> None:
    """A red base, an untested tree, a bad pull request that landed, a good one that did not."""
    assert problems([KEPT]) == ()
    broken = replace(
        KEPT, bad_landed=("Chai",), good_left=("Assam",), tips=(BaseState("b" * 40, False, False),), name="trains"
    )
    assert problems([KEPT, broken]) == (
        "trains: the base was red at bbbbbbb",
        "trains: no run tested the tree of bbbbbbb",
        "trains: Chai landed, and must not",
        "trains: Assam is good, and did not land",
    )
    assert broken.red == 1


def test_table_has_a_column_for_each_mode() -> None:
    """Side by side, so that people compare."""
    console = Console(width=120)
    with console.capture() as captured:
        console.print(figures_table([KEPT, replace(KEPT, name="trains", runs=2)]))
    text = captured.get()
    assert "one by one" in text
    assert "trains" in text
    line = next(each for each in text.splitlines() if "runs per landing" in each)
    assert line.split()[-4:-1] == ["1.50", "│", "0.50"]


def test_comparison_says_how_much_sooner_more_runs_at_once_end() -> None:
    """Or later, where that is so."""
    one, four = replace(KEPT, name="one run", seconds=31.4), replace(KEPT, name="four runs", seconds=33.0)
    assert sooner_words([KEPT, one, four]) == (
        "One run ended 9 s sooner than one by one; four runs ended 2 s later than one run."
    )


def test_verdict_says_where_trains_cost_more_runs_than_one_by_one() -> None:
    """Also where that is no praise."""
    less, more = replace(KEPT, name="one", runs=2), replace(KEPT, name="four", runs=9)
    assert saved_words([KEPT, less, more]) == "one 4 CI runs fewer, four 3 CI runs more"


def test_start_says_which_pull_requests_are_to_leave() -> None:
    """Alone, or one of each pair."""
    alone, paired = (failing_words(changes_of(40, 0.1, 1, pairs=pairs)) for pairs in (False, True))
    assert alone == "4 of them fail on the base that has moved since"
    assert paired == "4 pairs of them fail together"
