"""Which pull requests a description names, and in which lines."""

from dataclasses import replace

import pytest

from queue_engine.domain.facts import LandingState, RequiredLanding
from queue_engine.domain.model import Entry, UnmetRequirement
from queue_engine.domain.reasons import Reason
from queue_engine.rules.landing_order import (
    MOST,
    all_names,
    ended_landing,
    full_name,
    in_chain,
    lacked_beside_set,
    lands_before,
    new_requirements,
    order_lines,
    required_names,
    set_names,
    unmet_landings,
)
from tests.unit.queue_engine.examples import REPOSITORY, entry, pull

OWN = REPOSITORY.full_name


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("Depends-On: #12", ("#12",)),
        ("Text\r\n\r\ndepends-on:#12\r\nDEPENDS-ON: acme/library#3 ", ("#12", "acme/library#3")),
        (f"Depends-On: #12, {OWN.upper()}#13 #12", ("#12", "#13")),
        ("Depends-On: https://github.example/acme/library/pull/3", ("acme/library#3",)),
        (f"Depends-On: https://github.example/{OWN}/pull/4/", ("#4",)),
        (
            "Depends-On: https://elsewhere.example/acme/library/pull/3",
            ("https://elsewhere.example/acme/library/pull/3",),
        ),
        ("Depends-On: the release", ("the", "release")),
        ("- Depends-On: #12\n  * lands-with: #1", ("#12",)),
        ("1. [x] **Depends-On:** #12.", ("#12",)),
        ("   __Depends-On__: `#12`; <https://github.example/acme/library/pull/3>", ("#12", "acme/library#3")),
        ("**Depends-On: acme/library#3**", ("acme/library#3",)),
        ("Depends-On: [#3](https://github.example/acme/library/pull/3)", ("acme/library#3",)),
        ("Depends-On: https://github.example/acme/library/pull/3/files?w=1#r1", ("acme/library#3",)),
        ("> - Depends-On: #12", ()),
        ("It says Depends-On: #12", ()),
        ("Depends-On:", ()),
        ("> Depends-On: #12", ()),
        ("> quoted\nDepends-On: #12", ()),
        ("```\nDepends-On: #12\n```", ()),
        ("    Depends-On: #12", ()),
        ("`Depends-On: #12`", ()),
        ("<!--\nDepends-On: #12\n-->", ()),
    ],
)
def test_names_are_read_from_lines_of_their_own(body: str, names: tuple[str, ...]) -> None:
    """Neither quotes nor code count; what names no pull request is kept, so that the author reads of it."""
    made = pull(body=body, url=f"https://github.example/{OWN}/pull/7")
    assert required_names(made, REPOSITORY) == names


def test_more_names_than_are_read_remain_visible() -> None:
    """P7: one description costs few requests; the pull request waits instead of landing too early."""
    body = "\n".join(f"Depends-On: #{number}" for number in range(1, 40))
    assert len(required_names(pull(body=body), REPOSITORY)) == MOST + 1
    assert len(order_lines(body)) == MOST + 1
    assert [len(line) for line in order_lines(f"Depends-On: #12 {'x' * 1_000}")] == [200]


def test_queued_entry_is_judged_again_for_new_names_alone() -> None:
    """A removed line needs no wait."""
    queued = replace(entry(), depends_on=("#1", "acme/library#2"))
    assert new_requirements(queued, pull(body="Depends-On: #1")) == ()
    assert new_requirements(queued, pull(body="Depends-On: #3")) == (UnmetRequirement(Reason.DEPENDENCY_OPEN, "#3"),)
    assert lands_before(queued) == {1}


def test_set_is_named_by_lines_of_its_own() -> None:
    """A line that is added while queued is judged like any other."""
    made = pull(body="Lands-With: #2 acme/Library#3\nDepends-On: #1")
    assert (set_names(made, REPOSITORY), required_names(made, REPOSITORY)) == (("#2", "acme/Library#3"), ("#1",))
    queued = replace(entry(), depends_on=all_names(made, REPOSITORY))
    assert (new_requirements(queued, made), lands_before(queued)) == ((), frozenset({1}))
    assert full_name("#2", REPOSITORY) == f"{OWN.lower()}#2"
    lacks = (UnmetRequirement(Reason.SET_WAITING, "x"), UnmetRequirement(Reason.DEPENDENCY_OPEN, "#2"))
    assert lacked_beside_set(replace(entry(), unmet=lacks), {f"{OWN.lower()}#2"}) is None
    assert lacked_beside_set(replace(entry(), unmet=lacks), {"acme/library#3"}) == lacks[1]


def test_train_replaces_the_wait_for_what_is_queued_with_it() -> None:
    """Only an entry in the queue does: one that waits outside is no member of any run."""
    unmet = unmet_landings(RequiredLanding(LandingState.OPEN, f"#{number}") for number in (1, 2, 3))
    queued: list[Entry] = [replace(entry(), number=1), replace(entry(), number=2, unmet=unmet)]
    assert in_chain(unmet, queued) == unmet[1:]


def test_first_that_never_lands_is_the_reason() -> None:
    """One that landed asks for nothing."""
    landings = [RequiredLanding(state, state.value) for state in LandingState]
    assert ended_landing(landings) == (Reason.DEPENDENCY_ENDED, "ended")
    assert ended_landing(landings[:2]) is None
