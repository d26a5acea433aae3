"""Durations as people write them."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_engine.config.kinds import duration, shown


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=9999)))
def test_shown_duration_is_read_as_the_same(length: timedelta) -> None:
    """What `imq validate` prints may be put into the file, to the second."""
    whole = timedelta(seconds=int(length.total_seconds()))
    assert duration(shown(length)) == whole


@pytest.mark.parametrize("text", ["", "20", "m", "1.5h", "-3m", "2 weeks", "1m1h", "3m3m", "٣m", "9" * 50 + "d"])
def test_duration_of_another_form_is_refused(text: str) -> None:
    """A number without a unit could mean anything, and is not guessed at."""
    with pytest.raises(ValueError, match="must be a duration such as"):
        duration(text)
