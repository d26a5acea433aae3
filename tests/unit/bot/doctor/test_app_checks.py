"""What IMQ examines of the App, as pure functions; `test_doctor.py` seeds the faults themselves."""

from datetime import UTC, datetime

import pytest

from bot.doctor.app_checks import recent_deliveries, server_findings, server_text
from bot.doctor.doctor_facts import AppFacts
from queue_engine.domain.facts import Delivery


@pytest.mark.parametrize(
    ("newest_first", "codes"),
    [
        ("push:ok push:ok push:failed label:failed label:failed", ["deliveries_fail"]),
        ("push:ok label:ok push:failed label:failed", []),
        ("push:ok push:failed push:ok", []),
        ("push:failed push:ok", ["deliveries_fail"]),
        ("label:ok push:failed push:ok", ["deliveries_fail"]),
    ],
)
def test_failure_that_a_later_webhook_of_its_event_followed_is_no_finding(newest_first: str, codes: list[str]) -> None:
    """GitHub sends the first ones while the App is registered; an event that fails now is found."""
    deliveries = tuple(
        Delivery(number, f"guid-{number}", datetime(2026, 3, 14, tzinfo=UTC), False, result == "ok", event, None)
        for number, (event, _, result) in enumerate(word.partition(":") for word in newest_first.split())
    )
    assert [each.code for each in recent_deliveries(deliveries)] == codes


@pytest.mark.parametrize(
    ("version", "codes"),
    [
        (None, []),
        ("3.16.0", []),
        ("3.22.1", []),
        ("4.0", []),
        ("GitHub AE", []),
        ("3.15.9", ["server_too_old"]),
        ("2.22.3", ["server_too_old"]),
    ],
)
def test_enterprise_server_that_lacks_what_imq_needs_is_a_finding(version: str | None, codes: list[str]) -> None:
    """A version that IMQ cannot read is none; what every version lacks is a line of the report."""
    assert [each.code for each in server_findings(AppFacts(server=version))] == codes
    assert (server_text(version) is None) == (version is None)
