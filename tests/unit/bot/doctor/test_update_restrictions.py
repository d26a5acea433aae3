"""`imq doctor` accepts a ruleset that lets only IMQ merge, and names one that keeps IMQ from it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.unit.bot.doctor.installation import NAME, Place, a_place


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with a_place(tmp_path / "github") as place:
        yield place


async def test_repository_in_which_only_imq_merges_has_no_finding(place: Place) -> None:
    """Updates in one ruleset, requirements in another one."""
    place.repository.add_ruleset("Only the queue", update=True, bypass={"imq": "pull_request"}, by="mona")
    place.repository.add_ruleset("Checks", required_checks=["ci/test"], by="mona")
    report = await place.examine()
    assert report.findings == ()
    modes = {each.name: each.bypass for each in report.rulesets[NAME]}
    assert modes == {"Only the queue": "pull_requests_only", "Checks": "never"}


async def test_ruleset_that_restricts_updates_for_imq_too_is_named(place: Place) -> None:
    """People may merge, and IMQ may not."""
    place.repository.add_ruleset("Only the queue", update=True, bypass={"mona": "always"}, by="mona")
    (finding,) = (await place.examine()).findings
    assert finding.code == "branch_locked"
    assert "let IMQ's App bypass the ruleset" in finding.remedy
