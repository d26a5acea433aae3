"""Endpoints of branches and of the rules that hold for them."""

from datetime import timedelta
from typing import Any
from urllib.parse import quote

from github_emulator import payloads
from github_emulator.callers.errors import Refusal, not_accessible, not_found
from github_emulator.domain.rules.ruleset_scope import bypass_mode, concerns
from github_emulator.payloads.repositories import api, html
from github_emulator.rest.answer import Access, Answer
from github_emulator.rest.call import Call
from github_emulator.rest.routing import Routes
from github_emulator.state import Protection, Repository, Ruleset

routes = Routes("branches/branches")
_PERIODS = {
    name: timedelta(days=days)
    for name, days in (("day", 1), ("week", 7), ("month", 30), ("quarter", 90), ("year", 365))
}


@routes.repository("GET", "/branches", "contents=read", docs="#list-branches")
def list_branches(call: Call) -> Answer:
    """Every branch, by name."""
    return call.page(sorted(call.repository.git.branches()), lambda name: _short(call, name))


@routes.repository("GET", "/activity", "contents=read", docs="repos/repos#list-repository-activities")
def list_activities(call: Call) -> Answer:
    """The moves of branches, newest first; of one branch with `ref`, within a `time_period` that ends now."""
    behaviour, query, repository = call.github.behaviour, call.query, call.repository
    if behaviour.activity == "none":
        raise not_found()
    if behaviour.activity == "own" and not call.caller.covers(repository):
        raise not_accessible("contents=read")
    period = _PERIODS.get(query.get("time_period", "day" if behaviour.activity_of_a_day else ""))
    since = None if period is None else call.github.clock.now() - period
    ref = query.get("ref")
    found = [
        one
        for one in reversed(repository.activities)
        if (since is None or one.at >= since)
        and (ref is None or one.ref.removeprefix("refs/heads/") == ref.removeprefix("refs/heads/"))
    ]
    return call.page(found, lambda one: payloads.activity(call.github.source, one))


# Registered before the branch itself: a branch's name may hold slashes.
@routes.repository(
    "GET",
    "/branches/{branch}/protection",
    "administration=read",
    role="admin",
    docs="branches/branch-protection#get-branch-protection",
)
def get_protection(call: Call) -> Answer:
    """Classic protection in full, for those who may administer."""
    branch = call.params["branch"]
    _tip(call, branch)
    protection = call.github.rules.protection(call.repository, branch)
    if protection is None:
        raise Refusal(404, "Branch not protected")
    return Answer(payloads.full_protection(call.github.source, call.repository, branch, protection))


@routes.repository("GET", "/branches/{branch}", "contents=read", docs="#get-a-branch")
def get_branch(call: Call) -> Answer:
    """A branch with its tip and a summary of its classic protection."""
    name = call.params["branch"]
    commit = call.repository.git.must(_tip(call, name))
    url = f"{api(call.github.source, call.repository)}/branches/{quote(name, safe='')}"
    page = f"{html(call.github.source, call.repository)}/tree/{quote(name)}"
    return Answer(
        {
            **_short(call, name),
            "commit": payloads.commit(call.github.source, call.repository, commit, files=True),
            "_links": {"self": url, "html": page},
        }
    )


@routes.repository("GET", "/rules/branches/{branch}", docs="repos/rules#get-rules-for-a-branch")
def list_rules(call: Call) -> Answer:
    """The active rules of all rulesets that hold for a branch, whether it exists or not."""
    branch = call.params["branch"]
    found = call.github.rules.rulesets(call.repository, branch)
    rules = [rule for ruleset in found for rule in payloads.branch_rules(call.repository, ruleset)]
    return call.page(rules, lambda rule: rule)


@routes.repository("GET", "/rulesets", docs="repos/rules#get-all-repository-rulesets")
def list_rulesets(call: Call) -> Answer:
    """The repository's rulesets, whatever their enforcement, and unless `includes_parents` is false its
    organisation's; without their rules.
    """
    own = list(call.repository.rulesets.values())
    above = [] if call.query.get("includes_parents") == "false" else _of_owner(call)
    return call.page(
        [*own, *above], lambda found: payloads.ruleset_heading(call.github.source, _home(call, found), found)
    )


@routes.repository("GET", "/rulesets/{ruleset_id}", docs="repos/rules#get-a-repository-ruleset")
def get_ruleset(call: Call) -> Answer:
    """One ruleset, also one of the organisation's that holds here; whom it does not bind only administrators see."""
    everywhere = call.repository.rulesets | {found.id: found for found in _of_owner(call)}
    found = everywhere.get(call.number("ruleset_id"))
    if found is None:
        raise not_found()
    shown = payloads.ruleset(call.github.source, _home(call, found), found)
    del shown["bypass_actors"]
    return Answer(shown | {"current_user_can_bypass": _CAN_BYPASS[bypass_mode(found, call.actor)]})


@routes.add(
    "GET",
    "/orgs/{org}/rulesets/{ruleset_id}",
    Access("installation", ("organization_administration=write",)),
    docs="orgs/rules#get-an-organization-repository-ruleset",
)
def get_organisation_ruleset(call: Call) -> Answer:
    """A ruleset of the installation's organisation, with whom it does not bind."""
    if not call.actor.may("organization_administration"):
        raise not_accessible(call.access.accepted)
    found = call.github.state.organisation_rulesets.get(call.number("ruleset_id"))
    account = call.installation.account
    if found is None or found.organisation is not account or account.login.lower() != call.params["org"].lower():
        raise not_found()
    return Answer(payloads.ruleset(call.github.source, None, found))


_CAN_BYPASS = {None: "never", "always": "always", "pull_request": "pull_requests_only", "exempt": "exempt"}
"""What `current_user_can_bypass` says of each bypass mode (schema `repository-ruleset`)."""


def _of_owner(call: Call) -> list[Ruleset]:
    everywhere = call.github.state.organisation_rulesets.values()
    return [found for found in everywhere if concerns(call.repository, found)]


def _home(call: Call, found: Ruleset) -> Repository | None:
    return None if found.organisation else call.repository


def _tip(call: Call, name: str) -> str:
    tip = call.repository.git.branch(name)
    if tip is None:
        raise Refusal(404, "Branch not found")
    return tip


def _short(call: Call, name: str) -> dict[str, Any]:
    github, repository = call.github, call.repository
    sha = _tip(call, name)
    protection = github.rules.protection(repository, name)
    # A branch that only rulesets protect is shown as protected, without required checks here.
    protected = protection is not None or bool(github.rules.rulesets(repository, name))
    url = api(github.source, repository)
    return {
        "name": name,
        "commit": {"sha": sha, "url": f"{url}/commits/{sha}"},
        "protected": protected,
        "protection": {"enabled": protection is not None, "required_status_checks": _summary(protection)},
        "protection_url": f"{url}/branches/{quote(name, safe='')}/protection",
    }


def _summary(protection: Protection | None) -> dict[str, Any]:
    if protection is None or not protection.required_checks:
        return {"enforcement_level": "off", "contexts": [], "checks": []}
    return {
        "enforcement_level": "everyone" if protection.enforce_admins else "non_admins",
        "contexts": [check.context for check in protection.required_checks],
        "checks": [{"context": check.context, "app_id": check.app_id} for check in protection.required_checks],
    }
