"""Requirements of rulesets that IMQ may bypass. Pure functions.

The rules of a branch are listed whether or not the caller may bypass them (docs: "Get rules for a branch": "All active
rules that apply"; an admin's own list in coolbress/workflows #100). A merge call honours bypass lists: GitHub then
checks nothing of the ruleset (n24q02m/mnemo-mcp #1016: "a bypass skips every rule in the set"). What IMQ checks itself
holds all the same; a ruleset with anything else has to be split (apache/texera #8379 did so).
"""

from collections.abc import Iterable

from bot.gateway.http.answers import listed, understood
from bot.gateway.rules.schemas import PullRequestRuleAnswer, RuleAnswer, ScanningToolAnswer
from queue_engine.domain.facts import RequiredCheck

_OF_THE_QUEUE = frozenset({"update", "merge_queue"})
"""Rules that say who may move the branch, not what a change must be like. An App that may bypass them is meant to."""
_CHECKED = frozenset({"required_status_checks", "required_linear_history", "required_signatures", "code_scanning"})
"""Rules that IMQ checks itself before it merges; `pull_request` in part."""
_NOT_OF_MERGES = frozenset(
    {"creation", "deletion", "non_fast_forward", "branch_name_pattern", "tag_name_pattern", "copilot_code_review"}
)
"""Rules that no merge of a pull request violates."""
_REVIEWED, _SCANNED = "pull_request", "code_scanning"


def matters(rule: RuleAnswer) -> bool:
    """Whether it makes a difference that IMQ may bypass this rule."""
    return rule.type in _OF_THE_QUEUE or rule.type == _SCANNED or _asks_approvals(rule) or bool(unchecked([rule]))


def without_bypassed(rules: Iterable[RuleAnswer], bypassed: Iterable[int]) -> list[RuleAnswer]:
    """The rules without those of these rulesets that only say who may move the branch."""
    of_these = frozenset(bypassed)
    return [rule for rule in rules if rule.type not in _OF_THE_QUEUE or rule.ruleset_id not in of_these]


def approvals_bypassed(rules: Iterable[RuleAnswer], bypassed: Iterable[int]) -> bool:
    """Whether one of these rulesets demands approvals."""
    of_these = frozenset(bypassed)
    return any(rule.ruleset_id in of_these and _asks_approvals(rule) for rule in rules)


def scanned(rules: Iterable[RuleAnswer], bypassed: Iterable[int]) -> frozenset[RequiredCheck]:
    """The checks in which code scanning reports: a tool's results make a check of the tool's name
    (coolbress/workflows #100). Where GitHub enforces the rule itself, no check is needed for it.
    """
    of_these = frozenset(bypassed)
    return frozenset(
        RequiredCheck(tool.tool, None)
        for rule in rules
        if rule.type == _SCANNED and rule.ruleset_id in of_these
        for tool in listed(ScanningToolAnswer, rule.parameters or {}, "code_scanning_tools")
    )


def unchecked(rules: Iterable[RuleAnswer]) -> tuple[str, ...]:
    """What these rules demand that IMQ cannot check itself, in words, each once."""
    found = [words for rule in rules for words in _unchecked(rule)]
    return tuple(dict.fromkeys(found))


def _unchecked(rule: RuleAnswer) -> list[str]:
    if rule.type in _OF_THE_QUEUE | _CHECKED | _NOT_OF_MERGES:
        return []
    if rule.type != _REVIEWED:
        return [rule.type.replace("_", " ")]
    asked = understood(PullRequestRuleAnswer, rule.parameters or {})
    parts = {
        "code owner review": asked.require_code_owner_review,
        "approval of the last push": asked.require_last_push_approval,
        "resolved conversations": asked.required_review_thread_resolution,
        "required reviewers": bool(asked.required_reviewers),
    }
    return [words for words, demanded in parts.items() if demanded]


def _asks_approvals(rule: RuleAnswer) -> bool:
    if rule.type != _REVIEWED:
        return False
    return understood(PullRequestRuleAnswer, rule.parameters or {}).required_approving_review_count > 0
