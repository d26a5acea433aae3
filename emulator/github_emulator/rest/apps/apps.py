"""Endpoints of apps and their installations, and the tokens they get."""

from functools import partial
from typing import Any

from github_emulator import payloads
from github_emulator.callers.errors import Refusal, not_found
from github_emulator.rest.answer import Access, Answer
from github_emulator.rest.call import Call
from github_emulator.rest.routing import Routes
from github_emulator.state import Installation, Repository

routes = Routes("apps/apps")
_APP = Access("app")
_MOST_REPOSITORIES = 500
"""Of one token (docs: "Generating an installation access token"; GitHub's changelog of 2024-02-22)."""
_LEVELS = ("none", "read", "write", "admin")


@routes.add("GET", "/app", _APP, docs="#get-the-authenticated-app")
def get_app(call: Call) -> Answer:
    """The app itself."""
    return Answer(payloads.app(call.github.source, call.app))


@routes.add("GET", "/app/installations", _APP, docs="#list-installations-for-the-authenticated-app")
def list_installations(call: Call) -> Answer:
    """Where the app is installed, oldest first."""
    return call.page(_installations(call), partial(payloads.installation, call.github.source))


@routes.add("GET", "/app/installations/{installation_id}", _APP, docs="#get-an-installation-for-the-authenticated-app")
def get_installation(call: Call) -> Answer:
    """One installation."""
    return Answer(payloads.installation(call.github.source, _installation(call)))


@routes.add(
    "POST",
    "/app/installations/{installation_id}/access_tokens",
    _APP,
    docs="#create-an-installation-access-token-for-an-app",
)
def create_token(call: Call) -> Answer:
    """A token for an hour, for all the installation has or for less of it."""
    installation = _installation(call)
    if installation.suspended_at is not None:
        raise Refusal(403, "This installation has been suspended")
    narrowed = _narrowed_repositories(call, installation)
    token = call.tokens.issue(
        installation,
        _narrowed_permissions(call, installation),
        None if narrowed is None else [repository.id for repository in narrowed],
    )
    body: dict[str, Any] = {
        "token": token.text,
        "expires_at": payloads.timestamp(token.expires_at),
        "permissions": dict(token.permissions),
        "repository_selection": "all" if installation.repositories is None and narrowed is None else "selected",
    }
    if narrowed is not None:
        body["repositories"] = [payloads.repository(call.github.source, repository) for repository in narrowed]
    return Answer(body, 201)


@routes.add(
    "GET",
    "/installation/repositories",
    Access("installation"),
    docs="apps/installations#list-repositories-accessible-to-the-app-installation",
)
def list_repositories(call: Call) -> Answer:
    """What the token reaches."""
    covered = [one for one in call.github.state.repositories.values() if call.caller.covers(one)]
    answer = call.counted_page("repositories", covered, partial(payloads.repository, call.github.source))
    selection = "all" if call.installation.repositories is None and call.caller.repositories is None else "selected"
    return Answer({**answer.body, "repository_selection": selection}, headers=answer.headers)


def _installations(call: Call) -> list[Installation]:
    return [one for one in call.github.state.installations.values() if one.app is call.app]


def _installation(call: Call) -> Installation:
    found = call.github.state.installations.get(call.number("installation_id"))
    if found is None or found.app is not call.app:
        raise not_found()
    return found


def _narrowed_permissions(call: Call, installation: Installation) -> dict[str, str]:
    wanted = call.take("permissions", dict, {})
    for permission, level in wanted.items():
        granted = installation.permissions.get(permission, "none")
        if level not in _LEVELS or _LEVELS.index(level) > _LEVELS.index(granted):
            raise Refusal(422, "The permissions requested are not granted to this installation.")
    return {**wanted, "metadata": "read"} if wanted else dict(installation.permissions)


def _narrowed_repositories(call: Call, installation: Installation) -> list[Repository] | None:
    names, ids = call.take("repositories", list, []), call.take("repository_ids", list, [])
    if not names and not ids:
        return None
    if len(names) + len(ids) > _MOST_REPOSITORIES:
        raise Refusal(422, f"A maximum of {_MOST_REPOSITORIES} repositories may be listed.")
    covered = [one for one in call.github.state.repositories.values() if installation.covers(one)]
    chosen = [one for one in covered if one.name in names or one.id in ids]
    if len(chosen) < len(set(names)) + len(set(ids)):
        raise Refusal(
            422, "There is at least one repository that does not exist or is not accessible to the parent installation."
        )
    return chosen
