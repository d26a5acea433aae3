"""What a mutation that creates several check runs leaves to each of them."""

import pytest

from bot.gateway.comments_and_checks import _result
from bot.gateway.http.client import ErrorAnswer
from queue_engine.domain.errors import Invalid, Unavailable


@pytest.mark.parametrize(("kind", "error"), [("UNPROCESSABLE", Invalid), ("INTERNAL", Unavailable)])
def test_refusal_of_one_check_run_is_its_own(kind: str, error: type[Exception]) -> None:
    """P2: what GitHub refuses for good is no trouble, and trouble is tried again; each has GitHub's words."""
    found = _result(None, ErrorAnswer(type=kind, message="No commit found for SHA"))
    assert type(found) is error
    assert "No commit found" in str(found)


def test_created_check_run_has_its_number_and_one_without_is_searched_later() -> None:
    """GitHub may have created it: no other one is created before the search."""
    assert _result({"checkRun": {"databaseId": 7}}, None) == 7
    assert type(_result({"checkRun": None}, None)) is Unavailable
