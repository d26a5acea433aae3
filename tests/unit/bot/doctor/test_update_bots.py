"""Settings of Renovate and Dependabot that work against a queue, and those that do not."""

from pathlib import Path
from typing import Any

import pytest

from bot.doctor.facts import RepositoryFacts
from bot.doctor.repository_checks import update_bot_findings
from queue_engine.config.model import Policy
from queue_engine.domain.facts import BranchRules
from queue_engine.domain.model import Repository
from tests.unit.bot.doctor.installation import a_place

STALE = """// Comments are allowed here: https://docs.renovatebot.com
{
\t/* the order
\t   matters */
\t"$schema": "https://docs.renovatebot.com/renovate-schema.json", // as in an editor
\textends: ['config:recommended', ':rebaseStalePrs',],
}
"""


def found(renovate: dict[str, Any], *, up_to_date: bool = False) -> list[str]:
    """The codes of the findings about a configuration of Renovate."""
    rules = BranchRules(frozenset(), native_queue=False, linear_history=False, up_to_date=up_to_date)
    place = Repository(1, "acme", "rocket", 1)
    facts = RepositoryFacts(place, "main", Policy(), rules=rules, renovate=("renovate.json", renovate))
    return [each.code for each in update_bot_findings(facts)]


@pytest.mark.parametrize("preset", ["Disabled", "Branch", "Pr", "RequireAllStatusChecks"])
def test_preset_that_only_chooses_how_to_automerge_is_no_finding(preset: str) -> None:
    """Renovate's `:automergeBranch` sets the type; automerge stays off."""
    assert found({"extends": ["config:recommended", f":automerge{preset}"]}) == []


@pytest.mark.parametrize("preset", ["All", "Minor", "Patch", "Digest", "Linters"])
def test_preset_that_enables_automerge_is_found(preset: str) -> None:
    """For some packages or for all."""
    assert found({"extends": [f"default:automerge{preset}"]}) == ["renovate_merges"]


@pytest.mark.parametrize(
    ("content", "rebases"),
    [
        ({}, True),
        ({"rebaseWhen": "auto"}, True),
        ({"extends": ["config:recommended"]}, True),
        ({"rebaseWhen": "conflicted"}, False),
        ({"rebaseWhen": "never"}, False),
        ({"extends": ["github>acme/renovate-config"]}, False),
        ({"extends": ["github>acme/renovate-config"], "rebaseWhen": "auto"}, True),
    ],
)
def test_default_of_renovate_rebases_where_branches_have_to_be_up_to_date(
    content: dict[str, Any], rebases: bool
) -> None:
    """Renovate's `auto` (renovate #527, and #38072 for rulesets). A shared preset may have chosen otherwise."""
    assert found(content, up_to_date=True) == (["renovate_rebases"] if rebases else [])
    assert found(content) == []


@pytest.mark.parametrize(
    ("content", "rebases"),
    [
        ({"rebaseWhen": "behind-base-branch"}, True),
        ({"packageRules": [{"matchPackageNames": ["*"], "rebaseWhen": "behind-base-branch"}]}, True),
        ({"extends": [":rebaseStalePrs"]}, True),
        ({"extends": [":rebaseStalePrs"], "rebaseWhen": "conflicted"}, False),
    ],
)
def test_setting_that_rebases_whatever_is_behind_is_found(content: dict[str, Any], rebases: bool) -> None:
    """A key of the file counts more than a preset."""
    assert found(content) == (["renovate_rebases"] if rebases else [])


@pytest.mark.parametrize("rule", ["protection", "ruleset"])
async def test_files_with_comments_and_both_kinds_of_rules_are_read(tmp_path: Path, rule: str) -> None:
    """JSON5 allows comments and tabs, and GitHub has the rule in two places."""
    async with a_place(tmp_path / "github") as place:
        repository = place.repository
        repository.push("main", {".renovaterc.json5": STALE}, "Configure", by="mona")
        (finding,) = (await place.examine()).findings
        assert (finding.code, ":rebaseStalePrs" in finding.finding) == ("renovate_rebases", True)
        repository.push(
            "main", {".renovaterc.json5": "// Nothing yet\n{}\n", "renovate.jsonc": "{/**/}"}, "", by="mona"
        )
        assert (await place.examine()).findings == ()
        repository.push("main", {"renovate.json": '{"timezone": "UTC"}'}, "Configure", by="mona")
        if rule == "protection":
            repository.protect("main", required_checks=["ci/test"], strict=True)
        else:
            repository.add_ruleset("Current", required_checks=["ci/test"], strict=True, by="mona")
        (finding,) = (await place.examine()).findings
        assert "requires branches to be up to date" in finding.finding
