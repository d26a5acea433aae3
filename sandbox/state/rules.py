"""What branches demand."""

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class RequiredCheck:
    """A required context; from any source when `app_id` is None."""

    context: str
    app_id: int | None = None


@dataclass(eq=False, slots=True)
class Protection:
    """Classic protection of one branch name or pattern."""

    id: int
    pattern: str
    created_at: datetime
    updated_at: datetime
    required_checks: list[RequiredCheck] = field(default_factory=list)
    strict: bool = False
    required_approvals: int = 0
    enforce_admins: bool = False
    required_linear_history: bool = False
    required_conversation_resolution: bool = False
    restrict_pushes: list[str] | None = None
    """Logins and app slugs that may push; None for everyone with write access."""
    lock: bool = False
    allow_force_pushes: bool = False
    allow_deletions: bool = False


@dataclass(eq=False, slots=True)
class Ruleset:
    """A repository ruleset. `branches` are fnmatch patterns, `~DEFAULT_BRANCH` or `~ALL`."""

    id: int
    name: str
    branches: list[str]
    created_at: datetime
    updated_at: datetime
    enforcement: str = "active"
    required_checks: list[RequiredCheck] = field(default_factory=list)
    strict: bool = False
    required_approvals: int = 0
    linear_history: bool = False
    merge_queue: bool = False
    non_fast_forward: bool = False
