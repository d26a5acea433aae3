"""What administrators choose in the settings of a protection or a ruleset, and the record that it makes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict, Unpack

from github_emulator.domain.domain import Domain
from github_emulator.state import Protection, Repository, RequiredCheck, ReviewRule, Ruleset

Required = str | tuple[str, int | None]
"""A required check: its name, or its name and the id of the app that must report it."""


class ProtectionSettings(TypedDict, total=False):
    """Settings of classic protection; what is left out is off.

    `reviews` says all of reviews, `required_approvals` the usual part of it; `deployments` are environments;
    `restrict_pushes` are those who may push, None for all.
    """

    required_checks: Iterable[Required]
    strict: bool
    required_approvals: int
    reviews: ReviewRule | None
    enforce_admins: bool
    required_linear_history: bool
    required_conversation_resolution: bool
    restrict_pushes: Sequence[str] | None
    lock: bool
    signatures: bool
    deployments: Sequence[str]
    allow_force_pushes: bool
    allow_deletions: bool


class RulesetSettings(TypedDict, total=False):
    """Settings of a ruleset; what is left out is off, and it holds for the default branch.

    `branches` and `excluded` are patterns, `~DEFAULT_BRANCH` or `~ALL`. `bypass` are logins and app slugs that may
    bypass it: each with its mode (always, pull_request, exempt), or a list of those who always may. With
    `organisation` it is the owner's, and holds in all of its `repositories` (name patterns).
    """

    branches: Sequence[str]
    excluded: Sequence[str]
    required_checks: Iterable[Required]
    strict: bool
    checks_on_create: bool
    required_approvals: int
    reviews: ReviewRule | None
    linear_history: bool
    merge_queue: bool
    non_fast_forward: bool
    update: bool
    signatures: bool
    deployments: Sequence[str]
    workflows: Sequence[str]
    creation: bool
    deletion: bool
    branch_name: str
    commit_message: str
    code_scanning: Sequence[str]
    bypass: Sequence[str] | Mapping[str, str]
    enforcement: str
    organisation: bool
    repositories: Sequence[str]


def protection(domain: Domain, pattern: str, **settings: Unpack[ProtectionSettings]) -> Protection:
    """Build a protection with these settings."""
    now, pushers = domain.context.clock.now(), settings.get("restrict_pushes")
    return Protection(
        id=domain.context.state.next_id("protection"),
        pattern=pattern,
        created_at=now,
        updated_at=now,
        required_checks=_required(settings.get("required_checks", ())),
        strict=settings.get("strict", False),
        reviews=_reviews(settings.get("required_approvals", 0), settings.get("reviews")),
        enforce_admins=settings.get("enforce_admins", False),
        required_linear_history=settings.get("required_linear_history", False),
        required_conversation_resolution=settings.get("required_conversation_resolution", False),
        restrict_pushes=None if pushers is None else list(pushers),
        lock=settings.get("lock", False),
        signatures=settings.get("signatures", False),
        deployments=list(settings.get("deployments", ())),
        allow_force_pushes=settings.get("allow_force_pushes", False),
        allow_deletions=settings.get("allow_deletions", False),
    )


def ruleset(domain: Domain, place: Repository, name: str, **settings: Unpack[RulesetSettings]) -> Ruleset:
    """A ruleset with these settings, not added yet; an organisation's is that of the owner of `place`."""
    now, bypass = domain.context.clock.now(), settings.get("bypass", ())
    return Ruleset(
        id=domain.context.state.next_id("ruleset"),
        name=name,
        branches=list(settings.get("branches", ("~DEFAULT_BRANCH",))),
        created_at=now,
        updated_at=now,
        excluded=list(settings.get("excluded", ())),
        enforcement=settings.get("enforcement", "active"),
        required_checks=_required(settings.get("required_checks", ())),
        strict=settings.get("strict", False),
        checks_on_create=settings.get("checks_on_create", True),
        reviews=_reviews(settings.get("required_approvals", 0), settings.get("reviews")),
        linear_history=settings.get("linear_history", False),
        merge_queue=settings.get("merge_queue", False),
        non_fast_forward=settings.get("non_fast_forward", False),
        update=settings.get("update", False),
        signatures=settings.get("signatures", False),
        deployments=list(settings.get("deployments", ())),
        workflows=list(settings.get("workflows", ())),
        creation=settings.get("creation", False),
        deletion=settings.get("deletion", False),
        branch_name=settings.get("branch_name", ""),
        commit_message=settings.get("commit_message", ""),
        code_scanning=list(settings.get("code_scanning", ())),
        bypass=dict(bypass) if isinstance(bypass, Mapping) else dict.fromkeys(bypass, "always"),
        organisation=place.owner if settings.get("organisation") else None,
        repositories=list(settings.get("repositories", ("*",))),
    )


def _required(checks: Iterable[Required]) -> list[RequiredCheck]:
    return [RequiredCheck(check) if isinstance(check, str) else RequiredCheck(*check) for check in checks]


def _reviews(approvals: int, reviews: ReviewRule | None) -> ReviewRule | None:
    return reviews or (ReviewRule(approvals) if approvals else None)
