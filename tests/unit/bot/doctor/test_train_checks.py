"""`imq doctor` says what starts CI on trains and why, and names the rules that refuse their branches or landings."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bot.api.finding import Finding
from bot.api.payload import json_data
from tests.unit.bot.doctor.installation import NAME, Place, a_place

CI = ".github/workflows/ci.yml"
ON_PUSH = "on: {pull_request: , push: {branches: [main, 'imq/**']}}\n"
JOBS = "jobs: {test: {runs-on: ubuntu-latest, steps: [{run: make}]}}\n"
METHOD = "merge: {method: merge}\n"


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with a_place(tmp_path / "github") as place:
        yield place


def configure(place: Place, on: str = ON_PUSH, *, trains: str = "auto", method: str = METHOD) -> None:
    """Trains on main, whose workflow `test` is required."""
    files = {CI: on + JOBS, ".github/imq.yml": f"trains: {trains}\n{method}"}
    place.repository.push("main", files, "Configure", by="mona")
    actions = place.github.actions.app(place.repository.record)
    place.repository.protect("main", required_checks=[("test", actions.id)])


async def found(place: Place) -> list[Finding]:
    """What the doctor says of trains alone."""
    return [each for each in (await place.examine()).findings if each.code.startswith("trains_")]


async def test_trains_that_run_on_a_push_are_named_with_no_finding(place: Place) -> None:
    """Without trains nothing more is read."""
    await place.examine()
    assert not [each for each in place.server.requests if "rules/branches/imq" in each.path]
    configure(place)
    assert await found(place) == []
    report = await place.examine()
    forks = "pull requests of forks: tested alone until somebody with write access approves their head"
    assert report.trains == {NAME: f"a push of its branch starts CI, and every required check runs; {forks}"}
    assert f"{NAME}: trains: a push" in report.as_text()
    assert json_data(report)["trains"] == report.trains


async def test_forks_that_a_label_alone_lets_into_trains_are_named(place: Place) -> None:
    """P4: a person who may label runs a stranger's code with the secrets of CI."""
    configure(place, trains="{candidates: auto, forks: on}")
    (finding,) = await found(place)
    assert finding.code == "trains_forks_unreviewed"


async def test_branch_that_is_named_like_one_of_a_train_is_listed_if_a_person_made_it(place: Place) -> None:
    """P4: IMQ never deletes it, so that an operator has to know."""
    configure(place)
    place.repository.create_branch("imq/main/7", "main", by="mona")
    place.repository.create_branch("imq/idea", "main", by="mona")
    (finding,) = await found(place)
    assert finding.code == "trains_branches_left"
    assert "made and moved `imq/main/7`." in finding.finding


async def test_workflow_for_pull_requests_alone_is_started_by_a_draft_and_the_reason_is_named(place: Place) -> None:
    """The preferred trigger comes with why it does not do, and with the lines that would let it."""
    configure(place, "on: pull_request\n")
    assert await found(place) == []
    text = (await place.examine()).trains[NAME]
    assert text.startswith(
        "a draft pull request of its branch starts CI, which costs notifications, and every required check runs; "
        "not by push: "
    )
    assert f"; for a push, add to {CI}: on: / push: / branches: ['imq/**']; " in text


async def test_workflow_that_runs_while_trains_are_built_comes_with_a_filter(place: Place) -> None:
    """CI would run for each pull request of a train, too."""
    configure(place, "on: [push, pull_request]\n")
    (finding,) = await found(place)
    assert finding.code == "trains_builds_start_ci"
    assert f"Add to {CI}: on: / push: / branches-ignore: ['imq-build/**']." in finding.remedy


async def test_workflow_that_no_trigger_starts_comes_with_the_lines_to_add(place: Place) -> None:
    """The remedy has what people have to change."""
    configure(place, "on: pull_request\n", trains="push")
    (finding,) = await found(place)
    assert finding.code == "trains_without_ci"
    assert f"Add to {CI}: on: / push: / branches: ['imq/**']." in finding.remedy
    assert "one pull request after the other" in finding.impact
    assert finding.link == "docs/trains.md#what-starts-ci"


async def test_push_that_may_pass_untested_is_used_by_no_configuration(place: Place) -> None:
    """P1: the finding names the step, and the trigger that is left."""
    step = "run: git diff HEAD^ | ./ci/affected"
    configure(
        place,
        f"on: [push, pull_request]\njobs: {{test: {{runs-on: ubuntu-latest, steps: [{{{step}}}]}}}}\n#",
        trains="push",
    )
    finding, *_ = await found(place)
    assert finding.code == "trains_without_ci"
    assert "has a step that reads" in finding.finding
    assert "candidates: auto" in finding.remedy


async def test_check_of_another_app_leaves_the_proof_to_the_first_train(place: Place) -> None:
    """Its rules cannot be read."""
    configure(place)
    place.repository.protect("main", required_checks=[("ci/test", place.repository.record.id + 4)])
    (finding,) = await found(place)
    assert finding.code == "trains_unproven"
    assert "another App reports it" in finding.finding


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"creation": True}, "creation"),
        ({"required_approvals": 1}, "pull request"),
        ({"signatures": True, "excluded": ["main"]}, "required signatures"),
        ({"branch_name": "^fix/"}, "branch name pattern"),
        ({"deletion": True, "organisation": True, "by": "acme"}, "deletion"),
        ({"creation": True, "bypass": {"imq": "exempt"}}, None),
        ({"creation": True, "excluded": ["imq/**/*", "imq-build/**/*"]}, None),
        ({"non_fast_forward": True}, None),
    ],
)
async def test_ruleset_that_covers_the_branches_of_trains_is_named(
    place: Place, settings: dict[str, Any], words: str | None
) -> None:
    """Unless IMQ may bypass it, or it excludes them, or no step of a train violates it."""
    configure(place)
    place.repository.add_ruleset("All", **{"by": "mona", "branches": ["~ALL"], **settings})
    findings = [each for each in await found(place) if each.code == "trains_branches_restricted"]
    named = [str(words) in each.finding and "All" in each.finding for each in findings]
    assert named == ([True] if words else [])
    assert {each.link for each in findings} <= {"docs/trains.md#rules-and-bypasses"}
    assert all("`imq/**/*`" in each.remedy and "Exempt" in each.remedy for each in findings)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"required_approvals": 1}, "pull request"),
        ({"required_checks": ["test"]}, None),
        ({"required_approvals": 1, "bypass": {"imq": "exempt"}}, None),
        ({"required_approvals": 1, "bypass": {"imq": "pull_request"}}, "pull request"),
    ],
)
async def test_ruleset_of_the_base_that_refuses_a_push_asks_for_a_bypass(
    place: Place, settings: dict[str, Any], words: str | None
) -> None:
    """The mode `pull_request` covers merges of pull requests, no pushes; required checks passed on the candidate."""
    configure(place)
    place.repository.add_ruleset("Reviews", by="mona", **settings)
    findings = [each for each in await found(place) if each.code == "trains_need_bypass"]
    named = [str(words) in each.finding and "Reviews" in each.finding for each in findings]
    assert named == ([True] if words else [])


async def test_classic_protection_that_requires_pull_requests_asks_for_a_bypass(place: Place) -> None:
    """Which reviews it demands does not matter."""
    configure(place)
    place.repository.protect("main", required_checks=["test"], required_approvals=1)
    (finding,) = [each for each in await found(place) if each.code == "trains_need_bypass"]
    assert "it requires pull requests" in finding.finding
    assert "bypass required pull requests" in finding.remedy


@pytest.mark.parametrize("bypass", [{}, {"imq": "pull_request"}, {"imq": "exempt"}])
async def test_squash_with_a_strict_ruleset_asks_for_a_bypass_that_is_missing(
    place: Place, bypass: dict[str, str]
) -> None:
    """Each mode counts for merges: with one of them GitHub refuses no member."""
    configure(place, method="merge: {method: squash}\n")
    place.repository.add_ruleset("Strict", required_checks=["test"], strict=True, bypass=bypass)
    findings = [each for each in await found(place) if each.code == "trains_need_bypass"]
    assert ["lands its members by squash" in each.finding for each in findings] == ([] if bypass else [True])


@pytest.mark.parametrize("strict", [True, False])
async def test_squash_with_up_to_date_branches_asks_for_a_bypass(place: Place, strict: bool) -> None:
    """GitHub refuses the second member of a train: the first one moved the base."""
    configure(place, method="merge: {method: squash}\n")
    place.repository.protect("main", required_checks=["test"], strict=strict)
    findings = [each for each in await found(place) if each.code == "trains_need_bypass"]
    assert ["lands its members by squash" in each.finding for each in findings] == ([True] if strict else [])
