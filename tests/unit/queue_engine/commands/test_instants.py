"""How long `/freeze until` means."""

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_engine.commands.commands import FARTHEST, until
from queue_engine.config.freezes import window
from queue_engine.config.model import FreezeRules, Policy
from queue_engine.domain.policy import WeeklyFreeze

NOW = datetime(2026, 3, 26, 14, 30, tzinfo=UTC)  # a Thursday; clocks in Berlin are set forward on the 29th
BERLIN = Policy(
    freeze=FreezeRules(windows=(WeeklyFreeze(frozenset({4}), time(16), timedelta(days=2), ZoneInfo("Europe/Berlin")),))
)

TOKYO = Policy(freeze=FreezeRules(windows=(window("2026-12-23", "2027-01-03", None, "Asia/Tokyo", ""),)))


@pytest.mark.parametrize(
    ("words", "policy", "end", "why"),
    [
        ("until 2h", Policy(), datetime(2026, 3, 26, 16, 30, tzinfo=UTC), ""),
        ("until 1h30m release", Policy(), datetime(2026, 3, 26, 16, 0, tzinfo=UTC), "release"),
        ("UNTIL 2H", Policy(), datetime(2026, 3, 26, 16, 30, tzinfo=UTC), ""),
        ("until 2026-04-01", Policy(), datetime(2026, 4, 2, 0, 0, tzinfo=UTC), ""),
        ("until 2026-04-01 18:00", TOKYO, datetime(2026, 4, 1, 9, 0, tzinfo=UTC), ""),
        ("until 2026-04-01 08:00 code freeze", BERLIN, datetime(2026, 4, 1, 6, 0, tzinfo=UTC), "code freeze"),
        ("until 2026-04-01T08:00", BERLIN, datetime(2026, 4, 1, 6, 0, tzinfo=UTC), ""),
        ("until 2026-04-01T08:00Z", BERLIN, datetime(2026, 4, 1, 8, 0, tzinfo=UTC), ""),
    ],
)
def test_moment_is_read_in_the_zone_of_the_freezes(words: str, policy: Policy, end: datetime, why: str) -> None:
    """Times are those of the clocks of the people; what follows the end is the reason."""
    assert until(words, policy, NOW) == (end, why)


def test_moment_that_cannot_be_meant_is_explained() -> None:
    """A typo never freezes a branch for a year."""
    for words, fault in [
        ("until", "says no end"),
        ("until later", "no end that can be read"),
        ("until fri 08:00", "no end that can be read"),
        ("until 2 weeks", "no end that can be read"),
        ("until 2026-04-01 25:00", "an unknown time"),
        ("until 2026-02-30", "an unknown date"),
        ("until 2026-03-01", "in the past"),
        ("until 2026-03-26 14:30", "in the past"),
        ("until 2027-01-01", "longer than"),
        ("until 99999d", "longer than"),
        ("until 9999-12-31", "an unknown date"),
        ("until 2h 30m", "not understood: 30m"),
        ("until 2026-04-01 08:00 CET", "not understood: CET; times are those of UTC"),
        ("until 2026-04-01 08:00 Europe/Berlin", "not understood: Europe/Berlin"),
        ("until 2026-04-01 08:00 +02:00", "not understood"),
        ("until 2026-04-01 08:00 pm", "not understood: pm"),
    ]:
        with pytest.raises(ValueError, match=fault):
            until(words, Policy(), NOW)


@given(st.text(max_size=60))
def test_any_words_are_a_moment_ahead_or_a_fault(words: str) -> None:
    """Nothing else comes out, whatever is typed."""
    try:
        end, _ = until(f"until {words}", BERLIN, NOW)
    except ValueError:
        return
    assert NOW < end <= NOW + FARTHEST
