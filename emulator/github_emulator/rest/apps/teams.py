"""Endpoints about the teams of an organisation."""

from github_emulator import payloads
from github_emulator.callers.errors import not_accessible, not_found
from github_emulator.rest.answer import Access, Answer
from github_emulator.rest.call import Call
from github_emulator.rest.routing import Routes

routes = Routes("teams/members")


@routes.add(
    "GET",
    "/orgs/{org}/teams/{team_slug}/members",
    Access("installation", ("members=read",)),
    docs="#list-team-members",
)
def list_members(call: Call) -> Answer:
    """Who is in a team of the installation's organisation, or in a child team of it."""
    github, account = call.github, call.installation.account
    if account.login.lower() != call.params["org"].lower():
        raise not_found()
    if not call.actor.may("members", "read"):
        hidden = github.behaviour.hidden_teams_status == 404
        raise not_found() if hidden else not_accessible(call.access.accepted)
    members = github.teams.members(github.teams.find(account.login, call.params["team_slug"]))
    return call.page(members, lambda member: payloads.user(github.source, member))
