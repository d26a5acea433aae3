"""What branches demand: classic protection and rulesets, and whether a change meets them.

Source of the rules: GitHub's pages on protected branches and rulesets; the messages are those of its REST answers.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox import required_checks
from sandbox.ruleset_scope import applies, bypass_mode, is_named, matches
from sandbox.state import Actor, Protection, PullRequest, Repository, RequiredCheck, ReviewRule, Ruleset

if TYPE_CHECKING:
    from sandbox.github import GitHub


@dataclass(frozen=True, slots=True)
class Demand:
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

    def __init__(self, github: "GitHub") -> None:
        self._github = github

    def protect(self, repository: Repository, protection: Protection, *, actor: Actor) -> None:
        """Set the protection of its pattern, replacing an older one."""
        action = "edited" if protection.pattern in repository.protections else "created"
        repository.protections[protection.pattern] = protection
        self._github.happenings.protection(repository, protection, action, actor)

    def unprotect(self, repository: Repository, pattern: str, *, actor: Actor) -> None:
        """Remove a pattern's protection. Raises KeyError when there is none."""
        protection = repository.protections.pop(pattern)
        self._github.happenings.protection(repository, protection, "deleted", actor)

    def enable_protections(self, repository: Repository, enabled: bool, *, actor: Actor) -> None:
        """Enable all classic protections, or disable them, keeping what they say; rulesets stay."""
        if enabled:
            repository.protections = repository.disabled_protections | repository.protections
            repository.disabled_protections = {}
        else:
            repository.disabled_protections, repository.protections = repository.protections, {}
        self._github.happenings.protections(repository, "enabled" if enabled else "disabled", actor)

    def add_ruleset(self, repository: Repository | None, ruleset: Ruleset, *, actor: Actor) -> None:
        """Add a ruleset, or say that this one was edited; without a repository it is its organisation's."""
        place = self._place(repository)
        action = "edited" if ruleset.id in place else "created"
        place[ruleset.id] = ruleset
        self._github.happenings.ruleset(repository, ruleset, action, actor)

    def remove_ruleset(self, repository: Repository | None, ruleset: Ruleset, *, actor: Actor) -> None:
        """Remove a ruleset."""
        del self._place(repository)[ruleset.id]
        self._github.happenings.ruleset(repository, ruleset, "deleted", actor)

    def protection(self, repository: Repository, branch: str) -> Protection | None:
        """The classic protection of a branch: its exact name wins, else the oldest matching pattern."""
        if branch in repository.protections:
            return repository.protections[branch]
        matching = (found for found in repository.protections.values() if matches(branch, found.pattern))
        return next(matching, None)

    def rulesets(self, repository: Repository, branch: str) -> list[Ruleset]:
        """The active rulesets that hold for a branch: the repository's own, then its organisation's."""
        everywhere = [*repository.rulesets.values(), *self._github.state.organisation_rulesets.values()]
        return [ruleset for ruleset in everywhere if applies(repository, ruleset, branch)]

    def demands(self, repository: Repository, branch: str, actor: Actor | None = None) -> list[Demand]:
        """Everything asked of a pull request for a branch.

        An actor that may bypass a ruleset, in any mode, merges without it; an administrator may pass classic protection
        that spares administrators.
        """
        found = []
        classic = self.protection(repository, branch)
        if classic and not self.spares(repository, classic, actor):
            found.append(
                Demand(
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
            Demand(
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

    def merge_violations(self, pull: PullRequest, *, actor: Actor | None = None, method: str = "") -> list[str]:
        """Why the rules refuse to merge this pull request, in GitHub's words; empty when nothing stands against it."""
        violations: list[str] = []
        from_ruleset = False
        protection = self.protection(pull.repository, pull.base_branch)
        pushers = protection.restrict_pushes if protection else None
        if actor is not None and pushers is not None and not is_named(actor, pushers):
            violations.append("You're not authorized to push to this branch.")
        for demand in self.demands(pull.repository, pull.base_branch, actor):
            found = list(self._violations_of(pull, demand, method))
            from_ruleset = from_ruleset or (demand.from_ruleset and bool(found))
            violations += [text for text in found if text not in violations]
        if from_ruleset:
            return ["Repository rule violations found\n\n" + "\n\n".join(violations) + "\n\n"]
        return violations

    def is_behind(self, pull: PullRequest) -> bool:
        """Whether strict rules hold and the head lacks commits of its base."""
        demands = self.demands(pull.repository, pull.base_branch)
        return any(demand.strict for demand in demands) and not self._up_to_date(pull)

    def missing_approvals(self, pull: PullRequest) -> bool:
        """Whether people still have to agree."""
        demands = self.demands(pull.repository, pull.base_branch)
        return any(
            next(self._github.reviews.missing(pull, demand.reviews), None) for demand in demands if demand.reviews
        )

    def allows(self, pull: PullRequest, method: str, *, actor: Actor) -> bool:
        """Whether no ruleset forbids this merge method in the words of the repository's settings."""
        demands = self.demands(pull.repository, pull.base_branch, actor)
        allowed = all(demand.reviews is None or method in demand.reviews.methods for demand in demands)
        return allowed or not self._github.behaviour.methods_worded_as_settings

    def spares(self, repository: Repository, protection: Protection, actor: Actor | None) -> bool:
        """Whether classic protection does not bind somebody: administrators where they are spared, and no app."""
        if actor is None or actor.app is not None or protection.enforce_admins:
            return False
        return self._github.has_role(actor.user, repository, "admin")

    def _violations_of(self, pull: PullRequest, demand: Demand, method: str) -> Iterable[str]:
        repository, head = pull.repository, pull.head_sha
        if demand.frozen:
            yield "Cannot update this protected ref."
        if demand.locked:
            yield "Cannot change this locked branch"
        if demand.queue:
            yield "Changes must be made through the merge queue"
        if demand.linear and method == "merge":
            yield "This branch must not contain merge commits."
        if demand.from_ruleset and demand.reviews and method and method not in demand.reviews.methods:
            yield f"{method.capitalize()} is not an allowed merge method in this repository."
        # A squash lands one commit that GitHub signs itself; the other methods land the author's own.
        if demand.signatures and (method == "rebase" or (method != "squash" and not self._all_signed(pull))):
            yield "Commits must have verified signatures."
        if demand.reviews:
            yield from self._github.reviews.missing(pull, demand.reviews)
        if demand.threads and any(thread.resolved_by is None for thread in pull.threads):
            yield "A conversation must be resolved before this pull request can be merged."
        environments = [name for name in demand.deployments if name not in repository.deployed.get(head, ())]
        if environments:
            noun = "deployment" if len(environments) == 1 else "deployments"
            yield f"Missing successful active {' and '.join(environments)} {noun}."
        if demand.strict and demand.checks and not self._up_to_date(pull):
            # GitHub forgets results of a head that is behind: strict checks count as expected, however green.
            words = {check.context: "expected" for check in demand.checks}
            yield from required_checks.sentence(words, of=len(words))
        else:
            yield from required_checks.unmet(self._github, repository, head, demand.checks)
        yield from required_checks.unmet_workflows(self._github, repository, head, demand.workflows)
        yield from required_checks.unscanned(self._github, repository, head, demand.code_scanning)

    def _all_signed(self, pull: PullRequest) -> bool:
        return all(self._github.verified(commit) for commit in self._github.pulls.commits(pull))

    def _place(self, repository: Repository | None) -> dict[int, Ruleset]:
        return self._github.state.organisation_rulesets if repository is None else repository.rulesets

    def _up_to_date(self, pull: PullRequest) -> bool:
        tip = pull.repository.git.branch(pull.base_branch)
        return tip is not None and pull.repository.git.is_ancestor(tip, pull.head_sha)


def _spared(actor: Actor | None, reviews: ReviewRule) -> bool:
    return actor is not None and is_named(actor, reviews.spared)
