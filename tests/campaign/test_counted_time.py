"""What counts of a second on a machine that others use as well."""

import pytest

from tests.campaign.counted_time import counted


@pytest.mark.parametrize(
    ("ran", "waited", "seconds"),
    [
        pytest.param(0, 0, 1, id="nothing to do but wait for time to pass"),
        pytest.param(2, 0, 1, id="both processors"),
        pytest.param(2, 5, 1, id="more work than any machine of this size could do"),
        pytest.param(0.5, 0.5, 0.5, id="half of what was wanted"),
        pytest.param(0.5, 5, 0.25, id="a quarter of the machine, all of which was wanted"),
        pytest.param(0.1, 0.1, 0.9, id="little was wanted, and half of it came"),
    ],
)
def test_second_counts_as_far_as_processes_got_what_they_wanted(ran: float, waited: float, seconds: float) -> None:
    """A campaign's minute is a minute: starved of processors it is longer, waiting for a timer it is not."""
    assert counted(1, ran, waited, processors=2) == pytest.approx(seconds)
