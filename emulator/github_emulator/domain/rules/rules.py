"""What branches demand: classic protection and rulesets, and whether a change meets them.

Source of the rules: GitHub's pages on protected branches and rulesets; the messages are those of its REST answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from github_emulator.domain.accounts.accounts import Accounts
from github_emulator.domain.rules.ruleset_scope import applies, bypass_mode, is_named, matches
from github_emulator.events.context import Context
from github_emulator.events.events import (
    OrganisationRulesetChanged,
    ProtectionChanged,
    ProtectionsSwitched,
    RulesetChanged,
)
from github_emulator.state import Actor, Protection, PullRequest, Repository, RequiredCheck, ReviewRule, Ruleset


@dataclass(frozen=True, slots=True)
class Requirement:
    """What one protection or ruleset asks of a pull request, whichever of the two it is."""

    from_ruleset: bool
    checks: Sequence[RequiredCheck]
    strict: bool
    reviews: ReviewRule | None
    linear: bool
    signatures: bool
    deployments: Sequence[str]
    threads: bool
    queue: bool = False
    locked: bool = False
    frozen: bool = False
    workflows: Sequence[str] = ()
    code_scanning: Sequence[str] = ()


class Rules:
    """Reads protections and rulesets; `people` and tests write them through `protect` and `add_ruleset`."""

    def __init__(self, context: Context, *, accounts: Accounts) -> None:
        self._context = context
        self._events = context.events
        self._accounts = accounts

    def protect(self, repository: Repository, protection: Protection, *, actor: Actor) -> None:
        """Set the protection of its pattern, replacing an older one."""
        action = "edited" if protection.pattern in repository.protections else "created"
        repository.protections[protection.pattern] = protection
        self._events.publish(ProtectionChanged(repository, actor, action, protection))

    def unprotect(self, repository: Repository, pattern: str, *, actor: Actor) -> None:
        """Remove a pattern's protection. Raises KeyError when there is none."""
        protection = repository.protections.pop(pattern)
        self._events.publish(ProtectionChanged(repository, actor, "deleted", protection))

    def enable_protections(self, repository: Repository, enabled: bool, *, actor: Actor) -> None:
        """Enable all classic protections, or disable them, keeping what they say; rulesets stay."""
        if enabled:
            repository.protections = repository.disabled_protections | repository.protections
            repository.disabled_protections = {}
        else:
            repository.disabled_protections, repository.protections = repository.protections, {}
        self._events.publish(ProtectionsSwitched(repository, actor, "enabled" if enabled else "disabled"))

    def add_ruleset(self, repository: Repository | None, ruleset: Ruleset, *, actor: Actor) -> None:
        """Add a ruleset, or say that this one was edited; without a repository it is its organisation's."""
        place = self._place(repository)
        action = "edited" if ruleset.id in place else "created"
        place[ruleset.id] = ruleset
        self._publish_ruleset(repository, ruleset, action, actor)

    def remove_ruleset(self, repository: Repository | None, ruleset: Ruleset, *, actor: Actor) -> None:
        """Remove a ruleset."""
        del self._place(repository)[ruleset.id]
        self._publish_ruleset(repository, ruleset, "deleted", actor)

    def protection(self, repository: Repository, branch: str) -> Protection | None:
        """The classic protection of a branch: its exact name wins, else the oldest matching pattern."""
        if branch in repository.protections:
            return repository.protections[branch]
        matching = (found for found in repository.protections.values() if matches(branch, found.pattern))
        return next(matching, None)

    def rulesets(self, repository: Repository, branch: str) -> list[Ruleset]:
        """The active rulesets that hold for a branch: the repository's own, then its organisation's."""
        everywhere = [*repository.rulesets.values(), *self._context.state.organisation_rulesets.values()]
        return [ruleset for ruleset in everywhere if applies(repository, ruleset, branch)]

    def demands(self, repository: Repository, branch: str, actor: Actor | None = None) -> list[Requirement]:
        """Everything asked of a pull request for a branch.

        An actor that may bypass a ruleset, in any mode, merges without it; an administrator may pass classic protection
        that spares administrators.
        """
        found = []
        classic = self.protection(repository, branch)
        if classic and not self.spares(repository, classic, actor):
            found.append(
                Requirement(
                    False,
                    classic.required_checks,
                    classic.strict,
                    None if classic.reviews and _spared(actor, classic.reviews) else classic.reviews,
                    classic.required_linear_history,
                    classic.signatures,
                    classic.deployments,
                    classic.required_conversation_resolution,
                    locked=classic.lock,
                )
            )
        found += [
            Requirement(
                True,
                rules.required_checks,
                rules.strict,
                rules.reviews,
                rules.linear_history,
                rules.signatures,
                rules.deployments,
                rules.reviews is not None and rules.reviews.resolve_threads,
                queue=rules.merge_queue,
                frozen=rules.update,
                workflows=rules.workflows,
                code_scanning=rules.code_scanning,
            )
            for rules in self.rulesets(repository, branch)
            if actor is None or bypass_mode(rules, actor) is None
        ]
        return found

    def required_checks(self, repository: Repository, branch: str) -> list[RequiredCheck]:
        """All required checks of a branch, each once."""
        demands = self.demands(repository, branch)
        return list(dict.fromkeys(check for demand in demands for check in demand.checks))

    def is_behind(self, pull: PullRequest) -> bool:
        """Whether strict rules hold and the head lacks commits of its base."""
        demands = self.demands(pull.repository, pull.base_branch)
        return any(demand.strict for demand in demands) and not up_to_date(pull)

    def allows(self, pull: PullRequest, method: str, *, actor: Actor) -> bool:
        """Whether no ruleset forbids this merge method in the words of the repository's settings."""
        demands = self.demands(pull.repository, pull.base_branch, actor)
        allowed = all(demand.reviews is None or method in demand.reviews.methods for demand in demands)
        return allowed or not self._context.behaviour.methods_worded_as_settings

    def spares(self, repository: Repository, protection: Protection, actor: Actor | None) -> bool:
        """Whether classic protection does not bind somebody: administrators where they are spared, and no app."""
        if actor is None or actor.app is not None or protection.enforce_admins:
            return False
        return self._accounts.has_role(actor.user, repository, "admin")

    def _publish_ruleset(self, repository: Repository | None, ruleset: Ruleset, action: str, actor: Actor) -> None:
        if repository is None:
            self._events.publish(OrganisationRulesetChanged(ruleset, action, actor))
        else:
            self._events.publish(RulesetChanged(repository, actor, action, ruleset))

    def _place(self, repository: Repository | None) -> dict[int, Ruleset]:
        return self._context.state.organisation_rulesets if repository is None else repository.rulesets


def _spared(actor: Actor | None, reviews: ReviewRule) -> bool:
    return actor is not None and is_named(actor, reviews.spared)


def up_to_date(pull: PullRequest) -> bool:
    """Whether the head contains the tip of its base."""
    tip = pull.repository.git.branch(pull.base_branch)
    return tip is not None and pull.repository.git.is_ancestor(tip, pull.head_sha)
