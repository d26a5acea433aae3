"""Whether a ruleset applies to a branch, by its conditions and rules as GitHub shows them."""

from typing import Any

import pytest

from bot.gateway.rules.cache import keeps_people_out
from bot.gateway.rules.rule_schemas import RulesetAnswer

HEADS = "refs/heads/"


def ruleset(include: Any, exclude: Any = (), kind: str = "update") -> RulesetAnswer:
    conditions = {"ref_name": {"include": include, "exclude": list(exclude)}, "repository_name": {"include": ["~ALL"]}}
    return RulesetAnswer(conditions=conditions, rules=[{"type": kind}, {"type": "deletion"}])


def test_pattern_of_branches_is_read_as_github_reads_it() -> None:
    """P4: None, where GitHub's reading is not certain. Excluded is only a branch that is certainly excluded."""
    for pattern, branch, applies in [
        ("~ALL", "any/thing", True),
        ("~DEFAULT_BRANCH", "main", True),
        ("~DEFAULT_BRANCH", "maintenance", False),
        (f"{HEADS}main", "main", True),
        (f"{HEADS}main", "mainly", False),
        (f"{HEADS}v1.0", "v1x0", False),
        (f"{HEADS}release/*", "release/1", True),
        (f"{HEADS}release/*", "release/1/2", False),
        (f"{HEADS}release/**", "release/1", True),
        (f"{HEADS}release/**", "release/1/2", False),
        (f"{HEADS}release/**/*", "release/1", True),
        (f"{HEADS}release/**/*", "release/1/2/3", True),
        (f"{HEADS}release/**/*", "release", False),
        (f"{HEADS}**/**/*", "one", True),
        (f"{HEADS}**/stable", "a/b/stable", True),
        (f"{HEADS}**/stable", "unstable", False),
        (f"{HEADS}*-stable", "one-stable", True),
        (f"{HEADS}*-stable", "a/one-stable", False),
        (f"{HEADS}v?", "v1", True),
        (f"{HEADS}v?", "v10", False),
        (f"{HEADS}v?w", "v/w", False),
        (f"{HEADS}qa**/**/*", "qa/one", None),
        (f"{HEADS}qa**/**/*", "other", False),
        (f"{HEADS}v[0-9].[x_]", "v1.x", True),
        (f"{HEADS}v[0-9].[x_]", "vx.x", False),
        (f"{HEADS}v[9-0]", "v1", None),
        (f"{HEADS}v[^0-9]", "v1", None),
        (f"{HEADS}v[^0-9]", "w1", False),
        (f"{HEADS}v[.-0]", "v/", None),
        (f"{HEADS}{{a,b}}", "a", None),
        (f"{HEADS}a\\*", "a*", None),
        ("~INVENTED_NEXT_YEAR", "one", None),
        ("refs/*", "one", None),
        (HEADS + "x" * 301, "one", None),
    ]:
        assert keeps_people_out(ruleset([pattern]), branch, "main") is applies, (pattern, branch, applies)
        other = {True: False, False: True, None: None}[applies]
        assert keeps_people_out(ruleset(["~ALL"], [pattern]), branch, "main") is other, (pattern, branch, applies)


@pytest.mark.parametrize(
    ("include", "exclude", "applies"),
    [
        (["refs/heads/other", "refs/heads/o*"], [], True),
        (["refs/heads/other", "refs/heads/o[!a]e"], [], None),
        (["refs/heads/one"], ["refs/heads/o[!a]e"], None),
        (["refs/heads/o[!a]e"], ["refs/heads/one"], False),
        (["refs/heads/other"], ["refs/heads/o[!a]e"], False),
        ([], [], None),
    ],
)
def test_branch_has_to_be_included_and_not_excluded(
    include: list[str], exclude: list[str], applies: bool | None
) -> None:
    """One pattern that matches suffices, beside one of which IMQ is not certain."""
    assert keeps_people_out(ruleset(include, exclude), "one", "main") is applies


def test_default_branch_that_is_not_known_is_not_guessed() -> None:
    """P4: without a name it may be this branch."""
    assert keeps_people_out(ruleset(["~DEFAULT_BRANCH"]), "one", "") is None


@pytest.mark.parametrize("conditions", [None, {}, [], {"ref_name": None}, {"ref_name": {"include": None}}])
@pytest.mark.parametrize("rules", [[{"type": "update"}], [{"type": "deletion"}]])
def test_conditions_that_github_does_not_show_leave_it_open(conditions: Any, rules: Any) -> None:
    """An old server, or a schema of next year; nothing fails."""
    assert keeps_people_out(RulesetAnswer(conditions=conditions, rules=rules), "one", "main") is None


@pytest.mark.parametrize("rules", [None, {}, ["update"]])
def test_rules_that_github_does_not_show_leave_it_open(rules: Any) -> None:
    """P4: they may keep people from pushing."""
    shown = ruleset(["refs/heads/one"]).model_copy(update={"rules": rules})
    assert keeps_people_out(shown, "one", "main") is None


@pytest.mark.parametrize(("kind", "restricted"), [("update", True), ("merge_queue", True), ("creation", False)])
def test_ruleset_without_a_rule_about_pushes_restricts_no_push(kind: str, restricted: bool) -> None:
    """A ruleset against deletion concerns no update."""
    assert keeps_people_out(ruleset(["~ALL"], kind=kind), "one", "main") is restricted
