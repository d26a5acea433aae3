"""Requirements of rulesets that IMQ may bypass. Pure functions.

GitHub lists the rules of a branch whether or not the caller may bypass them (docs: "Get rules for a branch": "All
active rules that apply"; an admin's own list in coolbress/workflows #100). A merge call honours bypass lists: GitHub
then checks nothing of the ruleset (n24q02m/mnemo-mcp #1016: "a bypass skips every rule in the set"). Rules that IMQ
checks itself still apply; a ruleset with any other rule has to be split (apache/texera #8379 did so).
"""

from collections.abc import Iterable

from bot.gateway.http.client import parse_answer, parse_list
from bot.gateway.rules.schemas import PullRequestRuleAnswer, RuleAnswer, ScanningToolAnswer
from queue_engine.domain.facts import RequiredCheck

_BRANCH_UPDATES = frozenset({"update", "merge_queue"})
"""Rules about who may update the branch, not about the change. They are meant to be bypassed by the queue's App."""
_CHECKED = frozenset({"required_status_checks", "required_linear_history", "required_signatures", "code_scanning"})
"""Rules that IMQ checks itself before it merges; `pull_request` in part."""
_NOT_OF_MERGES = frozenset(
    {"creation", "deletion", "non_fast_forward", "branch_name_pattern", "tag_name_pattern", "copilot_code_review"}
)
"""Rules that no merge of a pull request violates."""
_PUSHES = frozenset(
    {
        "update",
        "merge_queue",
        "pull_request",
        "required_status_checks",
        "required_deployments",
        "workflows",
        "code_scanning",
    }
)
"""Rules that keep people from pushing their own commits to a branch ("Available rules for rulesets")."""
_REVIEWED, _SCANNED = "pull_request", "code_scanning"


def matters(rule: RuleAnswer) -> bool:
    """Whether a bypass of this rule makes a difference."""
    return rule.type in _BRANCH_UPDATES or rule.type == _SCANNED or _requires_approvals(rule) or bool(unchecked([rule]))


def restricts_pushes(rules: Iterable[RuleAnswer]) -> bool:
    """Whether these rules keep people from pushing to a branch."""
    return any(rule.type in _PUSHES for rule in rules)


def without_bypassed(rules: Iterable[RuleAnswer], bypassed: Iterable[int]) -> list[RuleAnswer]:
    """Return the rules without those of bypassed rulesets about who may update the branch."""
    ids = frozenset(bypassed)
    return [rule for rule in rules if rule.type not in _BRANCH_UPDATES or rule.ruleset_id not in ids]


def approvals_bypassed(rules: Iterable[RuleAnswer], bypassed: Iterable[int]) -> bool:
    """Whether one of these rulesets demands approvals."""
    ids = frozenset(bypassed)
    return any(rule.ruleset_id in ids and _requires_approvals(rule) for rule in rules)


def scanning_checks(rules: Iterable[RuleAnswer], bypassed: Iterable[int]) -> frozenset[RequiredCheck]:
    """Return the checks in which code scanning reports: a tool's results make a check of the tool's name
    (coolbress/workflows #100). Where GitHub enforces the rule itself, no check is needed for it.
    """
    ids = frozenset(bypassed)
    return frozenset(
        RequiredCheck(tool.tool, None)
        for rule in rules
        if rule.type == _SCANNED and rule.ruleset_id in ids
        for tool in parse_list(ScanningToolAnswer, rule.parameters or {}, "code_scanning_tools")
    )


def unchecked(rules: Iterable[RuleAnswer]) -> tuple[str, ...]:
    """Return the demands of these rules that IMQ cannot check itself, each once."""
    found = [name for rule in rules for name in _unchecked(rule)]
    return tuple(dict.fromkeys(found))


def _unchecked(rule: RuleAnswer) -> list[str]:
    if rule.type in _BRANCH_UPDATES | _CHECKED | _NOT_OF_MERGES:
        return []
    if rule.type != _REVIEWED:
        return [rule.type.replace("_", " ")]
    rule_parameters = parse_answer(PullRequestRuleAnswer, rule.parameters or {})
    parts = {
        "code owner review": rule_parameters.require_code_owner_review,
        "approval of the last push": rule_parameters.require_last_push_approval,
        "resolved conversations": rule_parameters.required_review_thread_resolution,
        "required reviewers": bool(rule_parameters.required_reviewers),
    }
    return [name for name, demanded in parts.items() if demanded]


def _requires_approvals(rule: RuleAnswer) -> bool:
    if rule.type != _REVIEWED:
        return False
    return parse_answer(PullRequestRuleAnswer, rule.parameters or {}).required_approving_review_count > 0
