"""Branch protection rules and rulesets: as their webhooks show them, and as the rules of a branch list them."""

from typing import Any

from github_emulator.payloads.accounts import node_id
from github_emulator.payloads.repositories import api, html
from github_emulator.payloads.source import Source
from github_emulator.payloads.times import timestamp
from github_emulator.state import Protection, Repository, RequiredCheck, ReviewRule, Ruleset

_QUEUE = {
    "check_response_timeout_minutes": 60,
    "grouping_strategy": "ALLGREEN",
    "max_entries_to_build": 5,
    "max_entries_to_merge": 5,
    "merge_method": "MERGE",
    "min_entries_to_merge": 1,
    "min_entries_to_merge_wait_minutes": 5,
}


def protection_rule(record: Repository, found: Protection) -> dict[str, Any]:
    """The `rule` of a `branch_protection_rule` webhook."""
    everyone = "everyone" if found.enforce_admins else "non_admins"
    reviews = found.reviews or ReviewRule()

    def level(holds: object) -> str:
        return everyone if holds else "off"

    return {
        "id": found.id,
        "repository_id": record.id,
        "name": found.pattern,
        "created_at": timestamp(found.created_at),
        "updated_at": timestamp(found.updated_at),
        "pull_request_reviews_enforcement_level": level(found.reviews),
        "required_approving_review_count": reviews.approvals,
        "dismiss_stale_reviews_on_push": reviews.dismiss_stale,
        "require_code_owner_review": reviews.code_owners,
        "authorized_dismissal_actors_only": False,
        "ignore_approvals_from_contributors": False,
        "required_status_checks": [check.context for check in found.required_checks],
        "required_status_checks_enforcement_level": level(found.required_checks),
        "strict_required_status_checks_policy": found.strict,
        "signature_requirement_enforcement_level": level(found.signatures),
        "linear_history_requirement_enforcement_level": level(found.required_linear_history),
        "lock_branch_enforcement_level": level(found.lock),
        "lock_allows_fork_sync": False,
        "admin_enforced": found.enforce_admins,
        "create_protected": False,
        "allow_force_pushes_enforcement_level": "everyone" if found.allow_force_pushes else "off",
        "allow_deletions_enforcement_level": "everyone" if found.allow_deletions else "off",
        "merge_queue_enforcement_level": "off",
        "required_deployments_enforcement_level": level(found.deployments),
        "required_conversation_resolution_level": level(found.required_conversation_resolution),
        "authorized_actors_only": found.restrict_pushes is not None,
        "authorized_actor_names": found.restrict_pushes or [],
        "require_last_push_approval": reviews.last_push,
    }


def ruleset_rules(record: Repository | None, found: Ruleset) -> list[dict[str, Any]]:
    """A ruleset's rules, in the API's shape; `record` holds its required workflows."""
    with_parameters: dict[str, dict[str, Any] | None] = {
        "required_status_checks": _checks(found) if found.required_checks else None,
        "pull_request": _reviews(found.reviews) if found.reviews else None,
        "merge_queue": dict(_QUEUE) if found.merge_queue else None,
        "update": {"update_allows_fetch_and_merge": False} if found.update else None,
        "required_deployments": {"required_deployment_environments": found.deployments} if found.deployments else None,
        "workflows": _workflows(record, found) if found.workflows else None,
        "code_scanning": {"code_scanning_tools": [_tool(name) for name in found.code_scanning]}
        if found.code_scanning
        else None,
        "branch_name_pattern": _pattern(found.branch_name),
        "commit_message_pattern": _pattern(found.commit_message),
    }
    bare = {
        "creation": found.creation,
        "deletion": found.deletion,
        "required_linear_history": found.linear_history,
        "non_fast_forward": found.non_fast_forward,
        "required_signatures": found.signatures,
    }
    rules: list[dict[str, Any]] = [
        {"type": kind, "parameters": parameters} for kind, parameters in with_parameters.items() if parameters
    ]
    return rules + [{"type": kind} for kind, holds in bare.items() if holds]


def _pattern(pattern: str) -> dict[str, Any] | None:
    return {"name": "", "negate": False, "operator": "regex", "pattern": pattern} if pattern else None


def branch_rules(record: Repository, found: Ruleset) -> list[dict[str, Any]]:
    """A ruleset's rules as the rules of a branch list them: each says where it comes from."""
    origin = {
        "ruleset_source_type": "Organization" if found.organisation else "Repository",
        "ruleset_source": found.organisation.login if found.organisation else record.full_name,
        "ruleset_id": found.id,
    }
    return [rule | origin for rule in ruleset_rules(record, found)]


def ruleset(source: Source, record: Repository | None, found: Ruleset) -> dict[str, Any]:
    """`repository-ruleset`; of the organisation when there is no repository."""
    include, exclude = _refs(found.branches), _refs(found.excluded)
    conditions: dict[str, Any] = {"ref_name": {"include": include, "exclude": exclude}}
    if record is None:
        conditions["repository_name"] = {"include": found.repositories, "exclude": []}
    return ruleset_heading(source, record, found) | {
        "bypass_actors": [_bypass(source, name, mode) for name, mode in found.bypass.items()],
        "conditions": conditions,
        "rules": ruleset_rules(record, found),
    }


def ruleset_heading(source: Source, record: Repository | None, found: Ruleset) -> dict[str, Any]:
    """A ruleset as lists show it, without its rules; of the organisation when there is no repository."""
    if record is not None:
        kind, place = "Repository", record.full_name
        links = {
            "self": f"{api(source, record)}/rulesets/{found.id}",
            "html": f"{html(source, record)}/rules/{found.id}",
        }
    else:
        assert found.organisation is not None, "a ruleset belongs to a repository or an organisation"
        kind, place = "Organization", found.organisation.login
        links = {
            "self": f"{source.addresses.api_url}/orgs/{place}/rulesets/{found.id}",
            "html": f"{source.addresses.html_url}/organizations/{place}/settings/rules/{found.id}",
        }
    return {
        "id": found.id,
        "name": found.name,
        "target": "branch",
        "source_type": kind,
        "source": place,
        "enforcement": found.enforcement,
        "node_id": node_id("RepositoryRuleset", found.id),
        "_links": {name: {"href": link} for name, link in links.items()},
        "created_at": timestamp(found.created_at),
        "updated_at": timestamp(found.updated_at),
    }


def _refs(patterns: list[str]) -> list[str]:
    return [name if name.startswith("~") else f"refs/heads/{name}" for name in patterns]


def _bypass(source: Source, name: str, mode: str) -> dict[str, Any]:
    app = next((app for app in source.state.apps.values() if app.slug == name), None)
    if app is not None:
        return {"actor_id": app.id, "actor_type": "Integration", "bypass_mode": mode}
    return {"actor_id": source.accounts.user(name).id, "actor_type": "User", "bypass_mode": mode}


def _tool(name: str) -> dict[str, str]:
    return {"tool": name, "alerts_threshold": "errors", "security_alerts_threshold": "high_or_higher"}


def _checks(found: Ruleset) -> dict[str, Any]:
    return {
        "strict_required_status_checks_policy": found.strict,
        "do_not_enforce_on_create": not found.checks_on_create,
        "required_status_checks": [_check(check) for check in found.required_checks],
    }


def _reviews(rule: ReviewRule) -> dict[str, Any]:
    return {
        "required_approving_review_count": rule.approvals,
        "dismiss_stale_reviews_on_push": rule.dismiss_stale,
        "require_code_owner_review": rule.code_owners,
        "require_last_push_approval": rule.last_push,
        "required_review_thread_resolution": rule.resolve_threads,
        "allowed_merge_methods": list(rule.methods),
    }


def _workflows(record: Repository | None, found: Ruleset) -> dict[str, Any]:
    home = record.id if record else 0
    return {
        "do_not_enforce_on_create": not found.checks_on_create,
        "workflows": [{"path": path, "repository_id": home, "ref": "refs/heads/main"} for path in found.workflows],
    }


def _check(check: RequiredCheck) -> dict[str, Any]:
    return {"context": check.context} | ({} if check.app_id is None else {"integration_id": check.app_id})
