"""Classic protection in full, as those read it who may read a repository's settings."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from github_emulator.payloads.accounts import integration, user
from github_emulator.payloads.repositories import api
from github_emulator.payloads.source import Source
from github_emulator.state import Protection, Repository, ReviewRule


def full_protection(source: Source, record: Repository, branch: str, found: Protection) -> dict[str, Any]:
    """`branch-protection`: parts that are not demanded are left out, or not enabled. Deployments are never shown."""
    url = f"{api(source, record)}/branches/{quote(branch, safe='')}/protection"
    full: dict[str, Any] = {
        "url": url,
        "enforce_admins": {"url": f"{url}/enforce_admins", "enabled": found.enforce_admins},
        "required_linear_history": {"enabled": found.required_linear_history},
        "allow_force_pushes": {"enabled": found.allow_force_pushes},
        "allow_deletions": {"enabled": found.allow_deletions},
        "block_creations": {"enabled": False},
        "required_conversation_resolution": {"enabled": found.required_conversation_resolution},
        "lock_branch": {"enabled": found.lock},
        "allow_fork_syncing": {"enabled": False},
        "required_signatures": {"url": f"{url}/required_signatures", "enabled": found.signatures},
    }
    if found.required_checks:
        full["required_status_checks"] = {
            "url": f"{url}/required_status_checks",
            "strict": found.strict,
            "contexts": [check.context for check in found.required_checks],
            "contexts_url": f"{url}/required_status_checks/contexts",
            "checks": [{"context": check.context, "app_id": check.app_id} for check in found.required_checks],
        }
    if found.reviews is not None:
        full["required_pull_request_reviews"] = _reviews(source, url, found.reviews)
    if found.restrict_pushes is not None:
        places = {f"{kind}_url": f"{url}/restrictions/{kind}" for kind in ("users", "teams", "apps")}
        actors = _actors(source, found.restrict_pushes)
        full["restrictions"] = {"url": f"{url}/restrictions", **places, **actors}
    return full


def _reviews(source: Source, url: str, rule: ReviewRule) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "url": f"{url}/required_pull_request_reviews",
        "dismiss_stale_reviews": rule.dismiss_stale,
        "require_code_owner_reviews": rule.code_owners,
        "require_last_push_approval": rule.last_push,
        "required_approving_review_count": rule.approvals,
    }
    if rule.spared:
        shown["bypass_pull_request_allowances"] = _actors(source, rule.spared)
    return shown


def _actors(source: Source, names: Sequence[str]) -> dict[str, Any]:
    """Those of these logins and app slugs that exist."""
    people = [source.state.users[name.lower()] for name in names if name.lower() in source.state.users]
    apps = [app for app in source.state.apps.values() if app.slug in names]
    return {
        "users": [user(source, person) for person in people],
        "teams": [],
        "apps": [integration(source, app) for app in apps],
    }
