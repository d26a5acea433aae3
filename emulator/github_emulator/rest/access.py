"""May this caller use this endpoint on this repository: permissions for apps, roles for people."""

from github_emulator.callers.errors import Refusal, not_accessible, not_found
from github_emulator.callers.tokens import Caller
from github_emulator.callers.visibility import visible
from github_emulator.facade.github import GitHub
from github_emulator.rest.answer import Access
from github_emulator.rest.routing import Route
from github_emulator.state import ROLES, Actor, Repository


def find_repository(github: GitHub, caller: Caller, params: dict[str, str]) -> Repository:
    """The repository in the path, by name or by id. Raises 404 also when the caller may not know of it."""
    if "repository_id" in params:
        wanted = params["repository_id"]
        found = next((one for one in github.state.repositories.values() if str(one.id) == wanted), None)
    else:
        found = github.state.repositories.get(f"{params['owner']}/{params['repo']}".lower())
    if found is None or not visible(github, caller, found):
        raise not_found()
    return found


def admit(github: GitHub, caller: Caller, route: Route, repository: Repository | None) -> None:
    """Raises what GitHub answers to somebody who may not use the endpoint."""
    access = route.access
    if access.who == "anyone":
        return
    if access.who == "app":
        if caller.app is None or caller.installation is not None:
            raise Refusal(401, "A JSON web token could not be decoded")
        return
    if access.who == "installation":
        if caller.installation is None:
            raise Refusal(
                403,
                "You must authenticate with an installation access token in order to list "
                "repositories for an installation.",
            )
        return
    assert repository is not None
    _admit_to_repository(github, caller, route, repository)


def _admit_to_repository(github: GitHub, caller: Caller, route: Route, repository: Repository) -> None:
    write = route.method != "GET"
    if caller.actor is None:
        if caller.app is not None:
            raise not_accessible(route.access.accepted)
        if write or not _public_read(route.access):
            raise Refusal(401, "Requires authentication")
    elif caller.installation is not None:
        if not _granted(caller, route.access, repository):
            raise not_accessible(route.access.accepted)
    else:
        _admit_person(github, caller.actor, route.access, repository)
    if write and repository.archived:
        raise Refusal(403, "Repository was archived so is read-only.")


def _granted(caller: Caller, access: Access, repository: Repository) -> bool:
    if not caller.covers(repository):
        return _public_read(access)
    assert caller.actor is not None
    for need in access.needs:
        permission, _, level = need.partition("=")
        # Every app may read metadata; other reads come with the permission itself, or with a public repository.
        if permission == "metadata" or caller.actor.may(permission, level):
            return True
    return _public_read(access) and not repository.private


def _public_read(access: Access) -> bool:
    return access.role == "read" and all(need.endswith("=read") for need in access.needs)


def _admit_person(github: GitHub, actor: Actor, access: Access, repository: Repository) -> None:
    role = github.accounts.role(actor.user, repository)
    if ROLES.index(role) >= ROLES.index(access.role):
        return
    if access.role == "admin" and role in ("none", "read"):
        raise not_found()
    if access.role == "admin":
        raise Refusal(403, "Must have admin rights to Repository.")
    raise Refusal(403, f"You must have {access.role} access to this repository.")
