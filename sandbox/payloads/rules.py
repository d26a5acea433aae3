"""Branch protection rules and rulesets, as their webhooks show them."""

from typing import TYPE_CHECKING, Any

from sandbox.payloads.accounts import node_id
from sandbox.payloads.repositories import api, html
from sandbox.payloads.times import timestamp
from sandbox.state import Protection, Repository, RequiredCheck, Ruleset

if TYPE_CHECKING:
    from sandbox.github import GitHub


def protection_rule(record: Repository, found: Protection) -> dict[str, Any]:
    """The `rule` of a `branch_protection_rule` webhook."""
    reviews = "non_admins" if found.required_approvals else "off"
    everyone = "everyone" if found.enforce_admins else "non_admins"
    checks = everyone if found.required_checks else "off"
    return {
        "id": found.id,
        "repository_id": record.id,
        "name": found.pattern,
        "created_at": timestamp(found.created_at),
        "updated_at": timestamp(found.updated_at),
        "pull_request_reviews_enforcement_level": reviews,
        "required_approving_review_count": found.required_approvals,
        "dismiss_stale_reviews_on_push": False,
        "require_code_owner_review": False,
        "authorized_dismissal_actors_only": False,
        "ignore_approvals_from_contributors": False,
        "required_status_checks": [check.context for check in found.required_checks],
        "required_status_checks_enforcement_level": checks,
        "strict_required_status_checks_policy": found.strict,
        "signature_requirement_enforcement_level": "off",
        "linear_history_requirement_enforcement_level": everyone if found.required_linear_history else "off",
        "lock_branch_enforcement_level": everyone if found.lock else "off",
        "lock_allows_fork_sync": False,
        "admin_enforced": found.enforce_admins,
        "create_protected": False,
        "allow_force_pushes_enforcement_level": "everyone" if found.allow_force_pushes else "off",
        "allow_deletions_enforcement_level": "everyone" if found.allow_deletions else "off",
        "merge_queue_enforcement_level": "off",
        "required_deployments_enforcement_level": "off",
        "required_conversation_resolution_level": everyone if found.required_conversation_resolution else "off",
        "authorized_actors_only": found.restrict_pushes is not None,
        "authorized_actor_names": found.restrict_pushes or [],
        "require_last_push_approval": False,
    }


def ruleset_rules(found: Ruleset) -> list[dict[str, Any]]:
    """A ruleset's rules, in the API's shape."""
    rules: list[dict[str, Any]] = []
    if found.required_checks:
        parameters = {
            "strict_required_status_checks_policy": found.strict,
            "do_not_enforce_on_create": False,
            "required_status_checks": [_check(check) for check in found.required_checks],
        }
        rules.append({"type": "required_status_checks", "parameters": parameters})
    if found.required_approvals:
        parameters = {
            "required_approving_review_count": found.required_approvals,
            "dismiss_stale_reviews_on_push": False,
            "require_code_owner_review": False,
            "require_last_push_approval": False,
            "required_review_thread_resolution": False,
            "allowed_merge_methods": ["merge", "squash", "rebase"],
        }
        rules.append({"type": "pull_request", "parameters": parameters})
    if found.linear_history:
        rules.append({"type": "required_linear_history"})
    if found.non_fast_forward:
        rules.append({"type": "non_fast_forward"})
    if found.merge_queue:
        parameters = {
            "check_response_timeout_minutes": 60,
            "grouping_strategy": "ALLGREEN",
            "max_entries_to_build": 5,
            "max_entries_to_merge": 5,
            "merge_method": "MERGE",
            "min_entries_to_merge": 1,
            "min_entries_to_merge_wait_minutes": 5,
        }
        rules.append({"type": "merge_queue", "parameters": parameters})
    return rules


def ruleset(github: "GitHub", record: Repository, found: Ruleset) -> dict[str, Any]:
    """`repository-ruleset`."""
    include = [name if name.startswith("~") else f"refs/heads/{name}" for name in found.branches]
    return {
        "id": found.id,
        "name": found.name,
        "target": "branch",
        "source_type": "Repository",
        "source": record.full_name,
        "enforcement": found.enforcement,
        "bypass_actors": [],
        "node_id": node_id("RepositoryRuleset", found.id),
        "_links": {
            "self": {"href": f"{api(github, record)}/rulesets/{found.id}"},
            "html": {"href": f"{html(github, record)}/rules/{found.id}"},
        },
        "conditions": {"ref_name": {"include": include, "exclude": []}},
        "rules": ruleset_rules(found),
        "created_at": timestamp(found.created_at),
        "updated_at": timestamp(found.updated_at),
    }


def _check(check: RequiredCheck) -> dict[str, Any]:
    return {"context": check.context} | ({} if check.app_id is None else {"integration_id": check.app_id})
