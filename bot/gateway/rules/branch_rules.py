"""Combine the requirements of classic protection and rulesets for a branch. Pure functions.

GitHub lists the rules of a branch whether or not the caller may bypass them (docs: "Get rules for a branch": "All
active rules that apply"; an admin's own list in coolbress/workflows #100). A merge call honours bypass lists: GitHub
then checks nothing of the ruleset (n24q02m/mnemo-mcp #1016: "a bypass skips every rule in the set"). Rules that IMQ
checks itself still apply; a ruleset with any other rule has to be split (apache/texera #8379 did so).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from bot.gateway.http.client import parse_answer, parse_list
from bot.gateway.rules.rule_schemas import (
    ActorsAnswer,
    DeploymentsRuleAnswer,
    EnabledAnswer,
    ProtectionAnswer,
    PullRequestRuleAnswer,
    RuleAnswer,
    RulesetCheckAnswer,
    ScanningToolAnswer,
)
from queue_engine.domain.facts import BranchRules, MergeMethod, RequiredCheck


@dataclass(frozen=True, slots=True)
class RulesetBypass:
    """An active ruleset of branches, and GitHub's word for how IMQ may bypass it; None if IMQ may not read it."""

    name: str
    organisation: bool
    bypass: str | None
    id: int = 0
    branches: tuple[str, ...] = ()
    """The branches for which it is, if it names each of them; an organisation's names those of many repositories."""


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
_REVIEWED_OF_BYPASS, _SCANNED = "pull_request", "code_scanning"


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
    found = [name for rule in rules for name in _unchecked_of_bypass(rule)]
    return tuple(dict.fromkeys(found))


def _unchecked_of_bypass(rule: RuleAnswer) -> list[str]:
    if rule.type in _BRANCH_UPDATES | _CHECKED | _NOT_OF_MERGES:
        return []
    if rule.type != _REVIEWED_OF_BYPASS:
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
    if rule.type != _REVIEWED_OF_BYPASS:
        return False
    return parse_answer(PullRequestRuleAnswer, rule.parameters or {}).required_approving_review_count > 0


_STRICT = "strict_required_status_checks_policy"
_NONE = BranchRules(required_checks=frozenset(), native_queue=False, linear_history=False)


def branch_rules(
    protection: ProtectionAnswer | None,
    rules: Iterable[RuleAnswer],
    *,
    own_app_id: int,
    bypassed: Mapping[int, str] = MappingProxyType({}),
    undisclosed: frozenset[int] = frozenset(),
) -> BranchRules:
    """Combine both: the strictest counts. A summary of protection has only the checks.

    `bypassed` are the rulesets that IMQ may bypass, by id, with their names: their demands still apply. For the
    rulesets `undisclosed` GitHub does not say whether IMQ may bypass them: IMQ counts their approvals itself.
    """
    classic = _from_protection(protection, own_app_id) if protection is not None and protection.enabled else _NONE
    listed = tuple(rules)
    strict = [rule for rule in listed if (rule.parameters or {}).get(_STRICT) is True]
    ruled = _from_rulesets(tuple(without_bypassed(listed, bypassed)))
    return BranchRules(
        required_checks=classic.required_checks | ruled.required_checks | scanning_checks(listed, bypassed),
        native_queue=ruled.native_queue,
        linear_history=classic.linear_history or ruled.linear_history,
        approvals=max(classic.approvals, ruled.approvals),
        code_owners=classic.code_owners or ruled.code_owners,
        conversations=classic.conversations or ruled.conversations,
        signatures=classic.signatures or ruled.signatures,
        locked=classic.locked or ruled.locked,
        push_restricted=classic.push_restricted,
        methods=ruled.methods,
        deployments=ruled.deployments,
        workflows=ruled.workflows,
        approvals_bypassed=approvals_bypassed(listed, undisclosed.union(bypassed)),
        bypassed=_unchecked(listed, bypassed),
        protected=classic.protected,
        up_to_date=classic.up_to_date or bool(strict),
        up_to_date_by=frozenset([0] if classic.up_to_date else []).union(rule.ruleset_id or 0 for rule in strict),
    )


def _unchecked(rules: tuple[RuleAnswer, ...], bypassed: Mapping[int, str]) -> tuple[str, ...]:
    """List each bypassed ruleset with the demands that neither GitHub nor IMQ would check."""
    found = {name: unchecked(rule for rule in rules if rule.ruleset_id == number) for number, name in bypassed.items()}
    return tuple(f"{name}: {', '.join(demands)}" for name, demands in found.items() if demands)


def _from_protection(protection: ProtectionAnswer, own_app_id: int) -> BranchRules:
    """Convert classic protection; its exemption of administrators excludes Apps ("About protected branches")."""
    reviews, pushing = protection.required_pull_request_reviews, protection.restrictions
    if reviews is not None and own_app_id in _app_ids(reviews.bypass_pull_request_allowances):
        reviews = None
    return BranchRules(
        required_checks=_protected_checks(protection),
        native_queue=False,
        linear_history=_is_enabled(protection.required_linear_history),
        approvals=reviews.required_approving_review_count if reviews is not None else 0,
        code_owners=reviews is not None and reviews.require_code_owner_reviews,
        conversations=_is_enabled(protection.required_conversation_resolution),
        signatures=_is_enabled(protection.required_signatures),
        locked=_is_enabled(protection.lock_branch),
        push_restricted=pushing is not None and pushing.apps is not None and own_app_id not in _app_ids(pushing),
        protected=True,
        up_to_date=protection.required_status_checks is not None and protection.required_status_checks.strict,
    )


def push_refusals(protection: ProtectionAnswer, own_app_id: int) -> tuple[str, ...]:
    """Return what classic protection refuses when this App pushes tested merge commits to the branch."""
    reviews = protection.required_pull_request_reviews
    spared = reviews is None or own_app_id in _app_ids(reviews.bypass_pull_request_allowances)
    rules = _from_protection(protection, own_app_id)
    found = {
        "it requires pull requests": not spared,
        "it restricts who can push": rules.push_restricted,
        "it is locked": rules.locked,
        "it requires linear history": rules.linear_history,
        "it requires signed commits": rules.signatures,
    }
    return tuple(words for words, holds in found.items() if holds)


def _from_rulesets(rules: tuple[RuleAnswer, ...]) -> BranchRules:
    types = {rule.type for rule in rules}
    reviewed = [parse_answer(PullRequestRuleAnswer, rule.parameters or {}) for rule in rules if rule.type == _REVIEWED]
    return BranchRules(
        required_checks=frozenset(
            RequiredCheck(check.context, _source(check.integration_id))
            for rule in rules
            if rule.type == "required_status_checks"
            for check in parse_list(RulesetCheckAnswer, rule.parameters or {}, "required_status_checks")
        ),
        native_queue="merge_queue" in types,
        linear_history="required_linear_history" in types,
        approvals=max((rule.required_approving_review_count for rule in reviewed), default=0),
        code_owners=any(rule.require_code_owner_review for rule in reviewed),
        conversations=any(rule.required_review_thread_resolution for rule in reviewed),
        signatures="required_signatures" in types,
        locked="update" in types,
        methods=_ruled_methods(reviewed),
        deployments=_ruled_deployments(rules),
        workflows="workflows" in types,
    )


_REVIEWED = "pull_request"


def _is_enabled(part: EnabledAnswer | None) -> bool:
    return part is not None and part.enabled


def _app_ids(actors: ActorsAnswer | None) -> set[int]:
    apps = (actors.apps if actors is not None else None) or ()
    return {app.id for app in apps if app is not None and app.id is not None}


def _protected_checks(protection: ProtectionAnswer) -> frozenset[RequiredCheck]:
    required = protection.required_status_checks
    if required is None or required.enforcement_level == "off":
        return frozenset()
    checks = {RequiredCheck(check.context, _source(check.app_id)) for check in required.checks}
    # `contexts` repeats the names of `checks`; alone it comes from servers that do not know `checks` yet.
    named = {check.name for check in checks}
    return frozenset(checks | {RequiredCheck(name, None) for name in required.contexts if name not in named})


def _ruled_methods(rules: Iterable[PullRequestRuleAnswer]) -> frozenset[MergeMethod] | None:
    allowed = [set(rule.allowed_merge_methods) for rule in rules if rule.allowed_merge_methods]
    return frozenset(method for method in MergeMethod if all(method in names for names in allowed)) if allowed else None


def _ruled_deployments(rules: Iterable[RuleAnswer]) -> tuple[str, ...]:
    ruled = [rule.parameters or {} for rule in rules if rule.type == "required_deployments"]
    answers = [parse_answer(DeploymentsRuleAnswer, parameters) for parameters in ruled]
    return tuple(sorted({name for answer in answers for name in answer.required_deployment_environments}))


def _source(app_id: int | None) -> int | None:
    """Return the App that must report a check; GitHub writes "any" as null or -1."""
    return app_id if app_id is not None and app_id > 0 else None
