"""Whether a bot's push to its own pull request is proved."""

import pytest

from queue_engine.config.model import Policy, PushRules
from queue_engine.domain.facts import HeadPush
from queue_engine.domain.model import EntryStatus
from queue_engine.domain.port import NO_BRANCH
from queue_engine.rules.own_pushes import keeps_position, made_by, may_push, pushed_by, with_pushed_head
from tests.unit.queue_engine.examples import NOW, entry

POLICY = Policy(on_push=PushRules(requeue_for=frozenset({"dependabot[bot]"})))
BUMP = entry(author="dependabot[bot]")


def moves(*pushes: tuple[str, str, str | None]) -> list[HeadPush]:
    """Moves of the branch, newest first: before, after, by whom."""
    return [HeadPush(before, after, NOW, by) for before, after, by in pushes]


@pytest.mark.parametrize(
    ("author", "login", "may"),
    [
        ("dependabot[bot]", "dependabot[bot]", True),
        ("dependabot[bot]", "Dependabot[bot]", True),
        ("dependabot[bot]", "mona", False),
        ("mona", "dependabot[bot]", False),
        ("renovate[bot]", "renovate[bot]", False),
        ("dependabot[bot]", None, False),
    ],
)
def test_only_a_named_bot_may_push_and_only_to_what_it_opened(author: str, login: str | None, may: bool) -> None:
    """P4: a name in the list gives no right to other people's pull requests."""
    assert may_push(entry(author=author), login, POLICY) is may


@pytest.mark.parametrize(
    ("pushes", "proved"),
    [
        (moves(("head-1", "new", "dependabot[bot]")), True),
        (moves(("middle", "new", "dependabot[bot]"), ("head-1", "middle", "dependabot[bot]")), True),
        (moves(("middle", "new", "dependabot[bot]"), ("head-1", "middle", "mona")), False),
        (moves(("head-1", "new", "mona")), False),
        (moves(("head-1", "new", None)), False),
        (moves(("head-1", "other", "dependabot[bot]")), False),
        (moves(("middle", "new", "dependabot[bot]")), False),
        (moves(("middle", "new", "dependabot[bot]"), ("head-1", "gone", "dependabot[bot]")), False),
        ([], False),
    ],
)
def test_pushes_are_the_bots_if_all_are_since_the_known_head(pushes: list[HeadPush], proved: bool) -> None:
    """P4: one of somebody else, one that is missing, or no answer at all: then none counts."""
    assert pushed_by("dependabot[bot]", pushes, BUMP, "new") is proved


@pytest.mark.parametrize(
    ("pushes", "made"),
    [
        (moves((NO_BRANCH, "tip", "imq[bot]")), True),
        (moves(("one", "tip", "imq[bot]"), (NO_BRANCH, "one", "IMQ[bot]"), (NO_BRANCH, "one", "mona")), True),
        (moves(("one", "tip", "mona"), (NO_BRANCH, "one", "imq[bot]")), False),
        (moves(("one", "tip", "imq[bot]"), (NO_BRANCH, "one", "mona")), False),
        (moves((NO_BRANCH, "former", "imq[bot]")), False),
        (moves(("one", "tip", "imq[bot]")), False),
        ([], False),
    ],
)
def test_branch_is_imqs_own_if_it_made_every_move_from_its_creation_to_its_tip(
    pushes: list[HeadPush], made: bool
) -> None:
    """P4: only such a branch is deleted without a record."""
    assert made_by("imq[bot]", pushes, "tip") is made


def test_position_is_kept_only_while_no_run_has_begun() -> None:
    """A push that costs a run goes to the end; so does one that replaced an unknown head."""
    assert keeps_position(BUMP, "head-1")
    assert not keeps_position(BUMP, "other")
    assert not keeps_position(BUMP, None)
    assert not keeps_position(entry(status=EntryStatus.CHECKING), "head-1")


def test_pushed_head_needs_no_proof_by_parents() -> None:
    """It is the head with consent, and no update of IMQ's."""
    bound = with_pushed_head(entry(head="updated", updated_from="head-1", head_proved=False, newer_tip="base-2"), "new")
    assert (bound.queued_head, bound.head, bound.head_proved) == ("new", "new", True)
    assert (bound.updated_from, bound.newer_tip) == (None, None)
