"""Narrow an installation's token to one repository and the permissions of its calls. Pure.

A token that leaks, or a call that goes astray, reaches one repository, and a reading token changes nothing there.
GitHub narrows a token when it is made ("Create an installation access token": `repository_ids`, at most 500, and
`permissions`); an empty list would mean all repositories (framna-docs #146). Tokens are made with the App's JWT, whose
limit is not the installation's (cogito #162, create-github-app-token #154). No source says whether they cost points of
secondary limits; the pace counts five each, of the App's own. So there are few kinds of tokens, each kept for an hour.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from bot.gateway.http.client import GRAPHQL, Call
from queue_engine.domain.model import Repository


class Purpose(StrEnum):
    """The purpose of a token."""

    READ = "read"
    """All reads of one repository."""
    WRITE = "write"
    """Updating and merging pull requests of one repository, comments, labels and check runs on them."""
    RUNS = "runs"
    """Running the jobs of GitHub Actions again, and cancelling them."""
    LIST = "list"
    """The lists that a sweep reads: an installation's repositories, and pull requests of each."""
    TEAMS = "teams"
    """The members of an organisation's teams."""
    FILES = "files"
    """The configuration files that a sweep of many repositories reads together."""
    SHARED = "shared"
    """An owner's configuration for all of its repositories, in the repository `.github`."""


NEEDED: Mapping[Purpose, Mapping[str, str]] = {
    Purpose.READ: {
        "actions": "read",
        "administration": "read",
        "checks": "read",
        "contents": "read",
        "issues": "read",
        "metadata": "read",
        "pull_requests": "read",
        "statuses": "read",
    },
    Purpose.WRITE: {
        "checks": "write",
        "contents": "write",
        "issues": "write",
        "members": "read",
        "metadata": "read",
        "pull_requests": "write",
        "statuses": "read",
        "workflows": "write",
    },
    Purpose.RUNS: {"actions": "write", "metadata": "read"},
    Purpose.LIST: {"issues": "read", "metadata": "read", "pull_requests": "read"},
    Purpose.TEAMS: {"members": "read", "metadata": "read"},
    Purpose.FILES: {"contents": "read", "metadata": "read"},
    Purpose.SHARED: {"contents": "read", "metadata": "read"},
}
"""The permissions of a token, as far as the installation grants them."""


@dataclass(frozen=True, slots=True)
class Optional:
    """A permission that IMQ can do without."""

    level: str
    without: str
    """The consequence where an installation lacks it, in a sentence."""
    least: str = ""
    """The level that IMQ needs all the same."""


OPTIONAL: Mapping[str, Optional] = {
    "actions": Optional(
        "write",
        "IMQ does not rerun failed jobs of GitHub Actions, so they count at once. It cancels no runs on outdated "
        "updates, and does not notice runs that wait for approval.",
    ),
    "administration": Optional(
        "read",
        "IMQ learns only from GitHub's refusal to merge what classic branch protection demands beside checks. Changed "
        "rules count after two hours at the latest. IMQ does not see reviews of a shared configuration that only "
        "classic protection requires.",
    ),
    "issues": Optional("write", "IMQ does not create the label that queues pull requests: people create it.", "read"),
    "members": Optional(
        "read", "Teams under `who_may_queue.teams` give no right to queue, because IMQ cannot read their members."
    ),
    "workflows": Optional(
        "write", "Pull requests that change .github/workflows wait for a person to merge them; the others proceed."
    ),
}
"""Permissions that an operator may leave out."""

_PUSH_ACCESS = frozenset(
    {
        "/repos/{owner}/{repo}",
        "/repos/{owner}/{repo}/collaborators/{username}/permission",
        "/repositories/{repository_id}/collaborators/{username}/permission",
        "/repos/{owner}/{repo}/rulesets/{ruleset_id}",
        GRAPHQL,
    }
)
"""Reads for which GitHub wants push access, or may: merge settings are left out without `contents: write`
(terraform-provider-github #679, #1727). For people's permissions the documentation and rultor #1407 ask for it, in
GraphQL repos-using-electron #26 and refined-github #9817; `metadata` sufficed for aenix-io/aeman #161. Whether the
asker may bypass a ruleset is asked with the token that merges. GraphQL's fields follow the permissions of what they
show (grafana-plugin-sdk-go #1679: a commit wants `contents`), and no page lists which: so the writing token reads
issues and statuses too."""

_LEVELS = ("read", "write", "admin")


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope of a token. Without a repository it reaches all of the installation's; SHARED `.github`."""

    installation_id: int
    repository_id: int | None
    purpose: Purpose


Target = Repository | int | Scope | None
"""The target of a call: a repository, an installation by its id, a scope, or None for the App itself."""


def scope_of(target: Repository | int | Scope, call: Call) -> Scope:
    """Return the narrowest scope in which this call works."""
    if isinstance(target, Scope):
        return target
    if isinstance(target, int):
        return Scope(target, None, Purpose.SHARED if "/contents/" in call.template else Purpose.LIST)
    return Scope(target.installation_id, target.id, _purpose(call))


def requested_permissions(scope: Scope, granted: Mapping[str, str] | None) -> dict[str, str]:
    """Return the permissions to request, never more than are granted: GitHub would refuse the token. None: unknown."""
    needed = NEEDED[scope.purpose]
    if granted is None:
        return dict(needed)
    found = {name: _weaker(level, granted[name]) for name, level in needed.items() if name in granted}
    # Every App has it, and a token without any permission named would have them all.
    return {"metadata": "read", **found}


def without(granted: Mapping[str, str]) -> dict[str, str]:
    """Return the optional permissions that an installation lacks, each with its consequence."""
    return {
        name: optional.without
        for name, optional in OPTIONAL.items()
        if _weaker(optional.level, granted.get(name, "")) != optional.level or name not in granted
    }


def _purpose(call: Call) -> Purpose:
    if call.template in _PUSH_ACCESS:
        return Purpose.WRITE
    if call.reads:
        return Purpose.READ
    return Purpose.RUNS if "/actions/" in call.template else Purpose.WRITE


def _weaker(wanted: str, granted: str) -> str:
    return min(wanted, granted, key=_LEVELS.index) if granted in _LEVELS else wanted
