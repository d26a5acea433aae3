"""Requests for reviews, as GraphQL shows them."""

from typing import Any

from github_emulator.facade.github import GitHub
from github_emulator.payloads import node_id
from github_emulator.state import PullRequest


def requested_reviewers(github: GitHub, pull: PullRequest) -> list[tuple[str, bool]]:
    """Whose review is requested, each with whether CODEOWNERS has it."""
    owners = github.reviews.requested_owners(pull)
    return [*((each, True) for each in owners), *((each.login, False) for each in pull.reviewers)]


def review_request(github: GitHub, pull: PullRequest, shows_teams: bool, requested: tuple[str, bool]) -> dict[str, Any]:
    """`ReviewRequest`. An App sees a team only with `members: read` (Kodiak #146)."""
    owner, as_owner = requested
    return {
        "id": f"RR_{pull.id}_{owner}",
        "asCodeOwner": as_owner,
        "requestedReviewer": _reviewer(github, owner, shows_teams),
    }


def _reviewer(github: GitHub, owner: str, shows_teams: bool) -> dict[str, Any] | None:
    team = github.state.teams.get(owner.lower())
    if team is None:
        user = github.user(owner)
        kind = "Bot" if user.kind == "Bot" else "User"
        return {"__typename": kind, "id": node_id(kind, user.id), "login": user.login}
    if not shows_teams:
        return None
    slug = f"{team.organisation.login}/{team.slug}"
    place = node_id("Team", team.id)
    return {"__typename": "Team", "id": place, "name": team.name, "slug": team.slug, "combinedSlug": slug}
