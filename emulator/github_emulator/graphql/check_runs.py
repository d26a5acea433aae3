"""The mutation `createCheckRun`: a check run of the calling App, as REST creates it too."""

from datetime import datetime
from typing import Any

from github_emulator.callers.tokens import Caller
from github_emulator.domain.checks.checks import CheckRunFields
from github_emulator.facade.github import GitHub
from github_emulator.graphql.errors import Refused, not_accessible
from github_emulator.graphql.ref_updates import repository_of
from github_emulator.state import Actor

MUTATION = "createCheckRun"


def create_check_run(github: GitHub, caller: Caller, actor: Actor, given: dict[str, Any]) -> dict[str, Any]:
    """Create one. Raises ApiError for an unknown commit, Refused for an unknown repository or a missing permission."""
    repository = repository_of(github, caller, given["repositoryId"])
    if actor.app is None or not actor.may("checks"):
        raise not_accessible()
    if given.get("status") == "COMPLETED" and given.get("conclusion") is None:
        raise Refused("UNPROCESSABLE", "Conclusion can't be blank")
    fields = CheckRunFields(
        status=_lower(given.get("status")),
        conclusion=_lower(given.get("conclusion")),
        started_at=_instant(given.get("startedAt")),
        completed_at=_instant(given.get("completedAt")),
        external_id=given.get("externalId"),
        details_url=given.get("detailsUrl"),
        output=given.get("output"),
    )
    run = github.checks.create_run(
        repository, app=actor.app, name=given["name"], head_sha=given["headSha"], fields=fields
    )
    return {"checkRun": {"databaseId": run.id}, "clientMutationId": given.get("clientMutationId")}


def _lower(value: str | None) -> str | None:
    return None if value is None else value.lower()


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
