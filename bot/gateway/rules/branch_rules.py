"""Combine the requirements of classic protection and rulesets for a branch. Pure functions."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from bot.gateway.http.client import parse_answer, parse_list
from bot.gateway.rules import bypasses
from bot.gateway.rules.schemas import (
    ActorsAnswer,
    DeploymentsRuleAnswer,
    EnabledAnswer,
    ProtectionAnswer,
    PullRequestRuleAnswer,
    RuleAnswer,
    RulesetCheckAnswer,
)
from queue_engine.domain.facts import BranchRules, MergeMethod, RequiredCheck

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
    ruled = _from_rulesets(tuple(bypasses.without_bypassed(listed, bypassed)))
    return BranchRules(
        required_checks=classic.required_checks | ruled.required_checks | bypasses.scanning_checks(listed, bypassed),
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
        approvals_bypassed=bypasses.approvals_bypassed(listed, undisclosed.union(bypassed)),
        bypassed=_unchecked(listed, bypassed),
        protected=classic.protected,
        up_to_date=classic.up_to_date or bool(strict),
        up_to_date_by=frozenset([0] if classic.up_to_date else []).union(rule.ruleset_id or 0 for rule in strict),
    )


def _unchecked(rules: tuple[RuleAnswer, ...], bypassed: Mapping[int, str]) -> tuple[str, ...]:
    """List each bypassed ruleset with the demands that neither GitHub nor IMQ would check."""
    found = {
        name: bypasses.unchecked(rule for rule in rules if rule.ruleset_id == number)
        for number, name in bypassed.items()
    }
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
        required_checks=_ruled_checks(rules),
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


def _ruled_checks(rules: Iterable[RuleAnswer]) -> frozenset[RequiredCheck]:
    return frozenset(
        RequiredCheck(check.context, _source(check.integration_id))
        for rule in rules
        if rule.type == "required_status_checks"
        for check in parse_list(RulesetCheckAnswer, rule.parameters or {}, "required_status_checks")
    )


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
