"""The pull requests of the comparison are what they are said to be."""

import pytest

from imq_demo.trains.landing import LandingMode
from imq_demo.trains.train_changes import BASE_LIMIT, CHECK, WORKFLOW, changes_of, passes, start_files
from queue_engine.config.file import policy_for
from queue_engine.config.model import Policy
from queue_engine.config.parse import read
from queue_engine.domain.facts import MergeMethod


def test_bad_recipes_pass_alone_and_fail_on_the_base_that_moved() -> None:
    """Else IMQ would not queue them; the seed decides which they are."""
    made = changes_of(40, 0.1, seed=1)
    assert sum(each.bad for each in made) == 4
    for each in made:
        assert passes({**start_files(0), **each.files})
        assert passes({**start_files(0), **BASE_LIMIT, **each.files}) is not each.bad
    assert made == changes_of(40, 0.1, seed=1) != changes_of(40, 0.1, seed=2)
    assert len({path for each in made for path in each.files}) == 40, "no two touch one file"


def test_pairs_pass_alone_and_fail_together() -> None:
    """One of each pair lands, so that as many leave as where they fail alone."""
    made = changes_of(40, 0.1, seed=1, pairs=True)
    paired = {each.number: each for each in made if each.partner is not None}
    assert len(paired) == 8
    for each in paired.values():
        assert each.partner is not None
        other = paired[each.partner]
        assert other.partner == each.number
        assert passes({**BASE_LIMIT, **each.files})
        assert not passes({**BASE_LIMIT, **each.files, **other.files})
    one_of_each = [each for each in made if each.partner is None or each.number < each.partner]
    assert passes({path: text for each in one_of_each for path, text in each.files.items()})


@pytest.mark.parametrize("runs", [0, 1, 4])
def test_modes_differ_by_the_configuration_of_trains_alone(runs: int) -> None:
    """The workflow runs the required check on a push to a train's branch."""
    files = start_files(runs)
    policy = policy_for(read(files[".github/imq.yml"]), Policy(), "main")
    trains = policy.trains
    assert (trains.runs if trains.enabled else 0) == runs
    assert policy.merge.method is MergeMethod.MERGE
    assert f"  {CHECK}:\n" in files[WORKFLOW]
    assert '"imq/**"' in files[WORKFLOW]


def test_mode_is_named_by_its_runs() -> None:
    """As people read it."""
    assert [LandingMode(runs).name for runs in (0, 1, 4)] == [
        "one by one",
        "trains, 1 run at once",
        "trains, 4 runs at once",
    ]
