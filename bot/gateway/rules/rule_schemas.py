"""Schemas of GitHub's answers about branch rules, with the fields that IMQ reads."""

from typing import Any

from pydantic import Field

from bot.gateway.schemas import ShaAnswer
from queue_engine.core.read_model import ReadModel


class ProtectedCheckAnswer(ReadModel):
    """A required check of classic protection; `app_id` None or -1 means from any source."""

    context: str
    app_id: int | None = None


class ProtectedChecksAnswer(ReadModel):
    """Required checks of classic protection. `contexts` is the older form, and all that old servers tell."""

    enforcement_level: str | None = None
    strict: bool = False
    contexts: list[str] = Field(default_factory=list)
    checks: list[ProtectedCheckAnswer] = Field(default_factory=list)


class EnabledAnswer(ReadModel):
    """A part of protection that holds or does not."""

    enabled: bool = False


class AppIdAnswer(ReadModel):
    """An App that may do something. The schema of restrictions promises no id."""

    id: int | None = None


class ActorsAnswer(ReadModel):
    """Who may do something; of people, teams and Apps only the Apps matter here. None: unknown."""

    apps: list[AppIdAnswer | None] | None = None


class ProtectedReviewsAnswer(ReadModel):
    """Reviews that classic protection demands, and who is spared them."""

    required_approving_review_count: int = 0
    require_code_owner_reviews: bool = False
    bypass_pull_request_allowances: ActorsAnswer | None = None


class ProtectionAnswer(ReadModel):
    """Classic protection: all of `GET /repos/{owner}/{repo}/branches/{branch}/protection`, which may say more than the
    summary in a branch, where there are only the checks. `restrictions` None: everybody who may write may push.
    """

    enabled: bool = True
    required_status_checks: ProtectedChecksAnswer | None = None
    required_pull_request_reviews: ProtectedReviewsAnswer | None = None
    restrictions: ActorsAnswer | None = None
    required_linear_history: EnabledAnswer | None = None
    required_conversation_resolution: EnabledAnswer | None = None
    required_signatures: EnabledAnswer | None = None
    lock_branch: EnabledAnswer | None = None


class BranchAnswer(ReadModel):
    """`GET /repos/{owner}/{repo}/branches/{branch}`. `protected` says so of classic protection and of rulesets."""

    commit: ShaAnswer | None = None
    protected: bool = False
    protection: ProtectionAnswer | None = None


class RuleAnswer(ReadModel):
    """One rule of `GET /repos/{owner}/{repo}/rules/branches/{branch}`."""

    type: str
    parameters: dict[str, Any] | None = None
    ruleset_id: int | None = None


class PullRequestRuleAnswer(ReadModel):
    """The parameters of a ruleset's `pull_request` rule, all of which old servers leave out."""

    required_approving_review_count: int = 0
    require_code_owner_review: bool = False
    require_last_push_approval: bool = False
    required_review_thread_resolution: bool = False
    required_reviewers: list[Any] | None = None
    allowed_merge_methods: list[str] | None = None


class DeploymentsRuleAnswer(ReadModel):
    """The parameters of a ruleset's `required_deployments` rule."""

    required_deployment_environments: list[str] = Field(default_factory=list)


class ListedRulesetAnswer(ReadModel):
    """A ruleset in `GET /repos/{owner}/{repo}/rulesets`; `target` is branch, tag or push."""

    id: int
    target: str = "branch"
    enforcement: str = "active"


class RulesetAnswer(ReadModel):
    """`GET /repos/{owner}/{repo}/rulesets/{ruleset_id}`: always, pull_requests_only, exempt, or never.

    GitHub says this of the caller, and only here, for an organisation's ruleset too (schema `repository-ruleset`); an
    App without any further permission sees it as well (s4k10503/velvet #320).
    """

    name: str = ""
    current_user_can_bypass: str | None = None
    conditions: Any = None
    """Parsed as `RulesetScopeAnswer` where IMQ needs them: IMQ works without."""
    rules: Any = None
    """Parsed as `RuleAnswer` where IMQ needs them."""


class BranchNamesAnswer(ReadModel):
    """Patterns of the branches to which a ruleset applies, and of those to which it does not."""

    include: list[str]
    exclude: list[str] = Field(default_factory=list)


class RulesetScopeAnswer(ReadModel):
    """The conditions of a ruleset; those of an organisation's about repositories do not matter here."""

    ref_name: BranchNamesAnswer


class ScanningToolAnswer(ReadModel):
    """A tool whose results a ruleset's `code_scanning` rule demands."""

    tool: str


class RulesetCheckAnswer(ReadModel):
    """A required check of a ruleset; without `integration_id` from any source."""

    context: str
    integration_id: int | None = None
