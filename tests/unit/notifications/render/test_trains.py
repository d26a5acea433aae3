"""What people read about trains: chances in plain words, and no facts that are missing."""

import pytest

from notifications.render.comment import content, render_comment
from notifications.render.train_text import chance, suspicion_sentence
from queue_engine.domain.notice import NoticeKind, TrainProgress
from tests.unit.notifications.trains import TRAINS, landed, member


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.0, "less than 1 %"),
        (0.003, "less than 1 %"),
        (0.02, "about 2 % (1 in 50)"),
        (0.1, "about 10 % (1 in 10)"),
        (0.2, "about 20 % (2 in 10)"),
        (0.5, "about 50 % (5 in 10)"),
        (0.98, "about 98 % (49 in 50)"),
        (0.99999, "more than 99 %"),
        (1.0, "more than 99 %"),
    ],
)
def test_chance_is_a_percentage_in_plain_words(share: float, words: str) -> None:
    """An author reads a percentage, what it means, and never a certainty."""
    assert chance(share) == words


def test_suspicion_sentence_of_a_fresh_pull_request_says_what_it_counts() -> None:
    """A chance by earlier pull requests accuses no person."""
    assert suspicion_sentence(0.1, failed=False) == (
        "The chance that this pull request breaks its run is about 10 % (1 in 10): so many earlier ones did."
    )
    assert suspicion_sentence(0.34, failed=True) == (
        "The chance that this pull request breaks its run is about 34 % (3 in 10)."
    )


def test_comment_of_a_member_names_no_pull_request_bare() -> None:
    """A bare number would notify the people of another pull request."""
    for name in TRAINS:
        shown = content(render_comment(TRAINS[name]))
        assert "#" not in shown.replace("`#", ""), name


def test_comment_of_a_landing_that_took_more_runs_claims_no_saving() -> None:
    """A train that failed on its way may take more runs than its members; then IMQ stays silent about runs."""
    assert "saved" not in content(render_comment(landed((41, 42), runs_saved=-1)))


def test_comment_of_a_bisection_says_that_another_ones_failure_is_not_theirs() -> None:
    """The author of an innocent pull request reads that it stays in the queue."""
    shown = content(render_comment(member(NoticeKind.CHECKING, TrainProgress.ALONE, (42,), failed=(41, 42))))
    assert "If another pull request of the run is the cause, this one stays in the queue." in shown


def test_comment_of_a_member_tested_alone_names_those_of_the_run_that_failed() -> None:
    """The failed run had others, although this one has none."""
    shown = content(render_comment(member(NoticeKind.CHECKING, TrainProgress.ALONE, (42,), failed=(41, 42))))
    assert "A CI run of `#41`, `#42` failed." in shown


@pytest.mark.parametrize(("others", "more"), [(12, None), (13, "and 1 more"), (20, "and 8 more")])
def test_comment_of_a_long_train_counts_those_that_it_does_not_name(others: int, more: str | None) -> None:
    """A hundred numbers would hide the rest of the comment."""
    members = tuple(range(42, 43 + others))
    shown = content(render_comment(member(NoticeKind.CHECKING, TrainProgress.TESTING, members)))
    assert (" more" in shown) is (more is not None)
    assert more is None or more in shown


def test_comment_of_a_landing_without_a_saving_claims_none() -> None:
    """As many runs as members saved nothing."""
    assert "saved" not in content(render_comment(landed((41, 42), runs_saved=0)))
