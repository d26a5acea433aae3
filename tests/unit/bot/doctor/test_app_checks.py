"""What IMQ examines of the App, as pure functions; `test_doctor.py` seeds the faults themselves."""

from datetime import UTC, datetime

import pytest

from bot.doctor.app_checks import recent_deliveries
from queue_engine.domain.facts import Delivery


@pytest.mark.parametrize(
    ("newest_first", "codes"),
    [("ok ok failed failed", []), ("ok failed ok", ["deliveries_fail"]), ("failed ok", ["deliveries_fail"])],
)
def test_webhooks_that_failed_before_imq_first_ran_are_no_finding(newest_first: str, codes: list[str]) -> None:
    """GitHub sends the first ones while the App is registered; a server that fails now and then is found."""
    deliveries = tuple(
        Delivery(number, f"guid-{number}", datetime(2026, 3, 14, tzinfo=UTC), False, word == "ok", "push", None)
        for number, word in enumerate(newest_first.split())
    )
    assert [each.code for each in recent_deliveries(deliveries)] == codes
