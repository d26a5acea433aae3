"""The review requests in the answer to the query of a snapshot."""

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True)


class ReviewActorPart(_Part):
    """`User` or `Team`: GitHub shows an App a team only with `members: read` (Kodiak #146)."""

    login: str | None = None
    combined_slug: str | None = None


class ReviewRequestPart(_Part):
    """`ReviewRequest`; `asCodeOwner` says that CODEOWNERS made GitHub request it (its reference, Asana/SGTM #227)."""

    as_code_owner: bool = False
    requested_reviewer: ReviewActorPart | None = None


class ReviewRequests(_Part):
    """`ReviewRequestConnection`."""

    nodes: list[ReviewRequestPart | None] | None = None


def code_owners(requests: ReviewRequests | None) -> tuple[str, ...]:
    """Name the code owners whose review GitHub requests, as far as it shows them: people, and teams as `owner/slug`."""
    nodes = (requests.nodes if requests else None) or ()
    reviewers = (each.requested_reviewer for each in nodes if each is not None and each.as_code_owner)
    return tuple(name for each in reviewers if each is not None and (name := each.login or each.combined_slug))
