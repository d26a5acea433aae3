"""What branches demand."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from github_emulator.state.accounts import User


@dataclass(frozen=True, slots=True)
class RequiredCheck:
    """A required context; from any source when `app_id` is None."""

    context: str
    app_id: int | None = None


METHODS = ("merge", "squash", "rebase")


@dataclass(frozen=True, slots=True)
class ReviewRule:
    """That changes come by pull request, and what its reviews must be; requested changes always block."""

    approvals: int = 0
    code_owners: bool = False
    dismiss_stale: bool = False
    """A push that changes something dismisses the approvals given before it."""
    last_push: bool = False
    """Somebody other than the last pusher must approve what was pushed last."""
    resolve_threads: bool = False
    """Every conversation must be resolved; classic protection asks for it apart from reviews."""
    methods: Sequence[str] = METHODS
    """Merge methods that a ruleset allows; classic protection has no say in it."""
    spared: Sequence[str] = ()
    """Logins and app slugs that classic protection lets merge without reviews; rulesets have bypass lists instead."""


@dataclass(eq=False, slots=True)
class Protection:
    """Classic protection of one branch name or pattern."""

    id: int
    pattern: str
    created_at: datetime
    updated_at: datetime
    required_checks: list[RequiredCheck] = field(default_factory=list)
    strict: bool = False
    reviews: ReviewRule | None = None
    enforce_admins: bool = False
    required_linear_history: bool = False
    required_conversation_resolution: bool = False
    restrict_pushes: list[str] | None = None
    """Logins and app slugs that may push; None for everyone with write access."""
    lock: bool = False
    signatures: bool = False
    deployments: list[str] = field(default_factory=list)
    """Environments to which the head must be deployed."""
    allow_force_pushes: bool = False
    allow_deletions: bool = False


@dataclass(eq=False, slots=True)
class Ruleset:
    """A ruleset of a repository or an organisation. `branches` and `excluded` are patterns as GitHub reads them
    (`github_emulator.domain.rules.ruleset_scope`), `~DEFAULT_BRANCH` or `~ALL`.
    """

    id: int
    name: str
    branches: list[str]
    created_at: datetime
    updated_at: datetime
    excluded: list[str] = field(default_factory=list)
    enforcement: str = "active"
    required_checks: list[RequiredCheck] = field(default_factory=list)
    strict: bool = False
    checks_on_create: bool = True
    """A new branch needs its checks, too; False is GitHub's `do_not_enforce_on_create`."""
    reviews: ReviewRule | None = None
    linear_history: bool = False
    merge_queue: bool = False
    non_fast_forward: bool = False
    update: bool = False
    """The branch may not move."""
    signatures: bool = False
    deployments: list[str] = field(default_factory=list)
    workflows: list[str] = field(default_factory=list)
    """Paths of workflows that must pass; the emulator takes a check run named like the file for the workflow's run."""
    creation: bool = False
    """Branches may not be created."""
    deletion: bool = False
    """Branches may not be deleted."""
    branch_name: str = ""
    """A regular expression that the names of new branches must match; empty: any name."""
    commit_message: str = ""
    """A regular expression that the messages of new commits must match; empty: any message."""
    code_scanning: list[str] = field(default_factory=list)
    """Tools whose results must be there and good; the emulator takes a check run named like the tool for them."""
    bypass: dict[str, str] = field(default_factory=dict)
    """Logins and app slugs that may bypass it, each with its mode: always, pull_request or exempt."""
    organisation: User | None = None
    """Whose ruleset it is when it is not the repository's own."""
    repositories: list[str] = field(default_factory=list)
    """For an organisation's: fnmatch patterns of repository names."""
