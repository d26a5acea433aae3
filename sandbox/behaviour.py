"""Switches for what GitHub does not answer alike everywhere, or of which sources disagree."""

from dataclasses import dataclass


@dataclass(slots=True)
class Behaviour:
    """How this GitHub answers; change any time. Each default is what most sources tell of github.com."""

    graphql: bool = True
    """Whether the GraphQL API is offered; if not, its address answers 404."""
    graphql_limit_type: str = "RATE_LIMIT"
    """The `type` of a GraphQL answer beyond the limit: RATE_LIMIT (githubkit #271), or RATE_LIMITED (older clients)."""
    collaborators_shown: bool = True
    """Whether GraphQL shows an App collaborators (policy-bot reads them) or refuses (refined-github #8553, #9817)."""
    decision_of_rulesets: bool = True
    """Whether `reviewDecision` knows the reviews that rulesets demand, or only classic ones (atlantis #6373)."""
    comparison_of_commits: bool = True
    """Whether GraphQL's `Ref.compare` takes a SHA as head; if not, only branches, and other heads give null."""
