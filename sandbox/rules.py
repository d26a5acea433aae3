"""What branches demand: classic protection and rulesets, and whether a change meets them.

Source of the rules: GitHub's pages on protected branches and rulesets; the messages are those of its REST answers.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from sandbox.errors import Invalid
from sandbox.state import Actor, CheckRun, Protection, PullRequest, Repository, RequiredCheck, Ruleset

if TYPE_CHECKING:
    from sandbox.github import GitHub

PASSING = frozenset({"success", "skipped", "neutral"})


@dataclass(frozen=True, slots=True)
class Demand:
    """What one protection or ruleset asks of a pull request, whichever of the two it is."""

    from_ruleset: bool
    checks: Sequence[RequiredCheck]
    strict: bool
    approvals: int
    linear: bool
    queue: bool
    locked: bool


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

    def add_ruleset(self, repository: Repository, ruleset: Ruleset, *, actor: Actor) -> None:
        """Add a ruleset, or say that this one was edited."""
        action = "edited" if ruleset.id in repository.rulesets else "created"
        repository.rulesets[ruleset.id] = ruleset
        self._github.happenings.ruleset(repository, ruleset, action, actor)

    def remove_ruleset(self, repository: Repository, ruleset: Ruleset, *, actor: Actor) -> None:
        """Remove a ruleset."""
        del repository.rulesets[ruleset.id]
        self._github.happenings.ruleset(repository, ruleset, "deleted", actor)

    def protection(self, repository: Repository, branch: str) -> Protection | None:
        """The classic protection of a branch: its exact name wins, else the oldest matching pattern."""
        if branch in repository.protections:
            return repository.protections[branch]
        matching = (found for found in repository.protections.values() if fnmatchcase(branch, found.pattern))
        return next(matching, None)

    def rulesets(self, repository: Repository, branch: str) -> list[Ruleset]:
        """The active rulesets that hold for a branch."""
        return [
            ruleset
            for ruleset in repository.rulesets.values()
            if ruleset.enforcement == "active"
            and any(_matches(repository, branch, pattern) for pattern in ruleset.branches)
        ]

    def demands(self, repository: Repository, branch: str, actor: Actor | None = None) -> list[Demand]:
        """Everything asked of a branch; an administrator may pass classic protection that spares administrators."""
        found = []
        protection = self.protection(repository, branch)
        if protection and not self._bypasses(repository, protection, actor):
            approvals, linear = protection.required_approvals, protection.required_linear_history
            checks, strict = protection.required_checks, protection.strict
            found.append(Demand(False, checks, strict, approvals, linear, False, protection.lock))
        for rules in self.rulesets(repository, branch):
            queue, linear = rules.merge_queue, rules.linear_history
            found.append(
                Demand(True, rules.required_checks, rules.strict, rules.required_approvals, linear, queue, False)
            )
        return found

    def required_checks(self, repository: Repository, branch: str) -> list[RequiredCheck]:
        """All required checks of a branch, each once."""
        demands = self.demands(repository, branch)
        return list(dict.fromkeys(check for demand in demands for check in demand.checks))

    def check_states(self, repository: Repository, sha: str, check: RequiredCheck) -> list[str]:
        """The word for each source that reports a required check: `passing`, `failing`, `pending`...; empty: none."""
        checks = self._github.checks
        words = [
            _word(run)
            for run in checks.latest_runs(repository, sha)
            if run.name == check.context and check.app_id in {None, run.app.id}
        ]
        for status in checks.latest_statuses(repository, sha):
            app_id = status.app.id if status.app else None
            if status.context == check.context and check.app_id in {None, app_id}:
                words.append({"success": "passing", "pending": "pending"}.get(status.state, "failing"))
        return words

    def merge_violations(self, pull: PullRequest, *, actor: Actor | None = None, method: str = "") -> list[str]:
        """Why the rules refuse to merge this pull request, in GitHub's words; empty when nothing stands against it."""
        violations: list[str] = []
        from_ruleset = False
        protection = self.protection(pull.repository, pull.base_branch)
        if protection and actor and not self._may_push(protection, actor):
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
        return any(list(self._missing_approvals(pull, demand.approvals)) for demand in demands)

    def approvals(self, pull: PullRequest) -> int:
        """People with write access whose newest verdict approves; -1 when one of them asks for changes."""
        verdicts: dict[str, str] = {}
        for review in pull.reviews:
            if review.state != "COMMENTED" and self._github.has_role(review.user, pull.repository, "write"):
                verdicts[review.user.login] = review.state
        if "CHANGES_REQUESTED" in verdicts.values():
            return -1
        return sum(state == "APPROVED" for state in verdicts.values())

    def check_push(self, repository: Repository, branch: str, sha: str | None, *, actor: Actor, force: bool) -> None:
        """Raise Invalid when the rules refuse to move a branch to `sha` (None: to delete it) without a pull request."""
        protection = self.protection(repository, branch)
        if protection and not self._bypasses(repository, protection, actor):
            self._check_protection(protection, sha, actor, force)
        for rules in self.rulesets(repository, branch):
            if force and rules.non_fast_forward:
                raise Invalid("Repository rule violations found\n\nCannot force-push to this branch\n\n")
            if rules.merge_queue:
                raise Invalid("Repository rule violations found\n\nChanges must be made through the merge queue\n\n")
        if sha is None:
            return
        for demand in self.demands(repository, branch, actor):
            if demand.approvals:
                raise Invalid("Changes must be made through a pull request.")
            missing = list(self._missing_checks(repository, sha, demand.checks))
            if missing:
                raise Invalid(missing[0])
            if demand.linear and len(repository.git.must(sha).parents) > 1:
                raise Invalid("This branch must not contain merge commits.")

    def _check_protection(self, protection: Protection, sha: str | None, actor: Actor, force: bool) -> None:
        if sha is None and not protection.allow_deletions:
            raise Invalid("Cannot delete this protected branch")
        if force and not protection.allow_force_pushes:
            raise Invalid("Cannot force-push to this protected branch")
        if protection.lock:
            raise Invalid("Cannot change this locked branch")
        if not self._may_push(protection, actor):
            raise Invalid("You're not authorized to push to this branch.")

    def _may_push(self, protection: Protection, actor: Actor) -> bool:
        names = {actor.user.login, actor.app.slug if actor.app else ""}
        return protection.restrict_pushes is None or bool(names & set(protection.restrict_pushes))

    def _bypasses(self, repository: Repository, protection: Protection, actor: Actor | None) -> bool:
        if actor is None or actor.app is not None or protection.enforce_admins:
            return False
        return self._github.has_role(actor.user, repository, "admin")

    def _violations_of(self, pull: PullRequest, demand: Demand, method: str) -> Iterable[str]:
        if demand.locked:
            yield "Cannot change this locked branch"
        if demand.queue:
            yield "Changes must be made through the merge queue"
        if demand.linear and method == "merge":
            yield "This branch must not contain merge commits."
        yield from self._missing_approvals(pull, demand.approvals)
        if demand.strict and demand.checks and not self._up_to_date(pull):
            # GitHub forgets results of a head that is behind: strict checks count as expected, however green.
            yield _expected([check.context for check in demand.checks])
        else:
            yield from self._missing_checks(pull.repository, pull.head_sha, demand.checks)

    def _missing_approvals(self, pull: PullRequest, needed: int) -> Iterable[str]:
        given = self.approvals(pull)
        if not needed or given >= needed:
            return
        if given < 0:
            yield "Changes have been requested."
        elif needed == 1:
            yield "At least 1 approving review is required by reviewers with write access."
        else:
            yield f"At least {needed} approving reviews are required by reviewers with write access."

    def _missing_checks(self, repository: Repository, sha: str, checks: Sequence[RequiredCheck]) -> Iterable[str]:
        states = {check: self.check_states(repository, sha, check) for check in checks}
        absent = [check.context for check, words in states.items() if not words]
        if absent:
            yield _expected(absent, of=len(checks))
        for check, words in states.items():
            bad = sorted((word for word in words if word != "passing"), key=lambda word: word != "failing")
            if bad:
                yield f'Required status check "{check.context}" is {bad[0]}.'

    def _up_to_date(self, pull: PullRequest) -> bool:
        tip = pull.repository.git.branch(pull.base_branch)
        return tip is not None and pull.repository.git.is_ancestor(tip, pull.head_sha)


def _matches(repository: Repository, branch: str, pattern: str) -> bool:
    if pattern == "~ALL":
        return True
    if pattern == "~DEFAULT_BRANCH":
        return branch == repository.default_branch
    return fnmatchcase(branch, pattern.removeprefix("refs/heads/"))


def _word(run: CheckRun) -> str:
    if run.status != "completed":
        return run.status.replace("_", " ")
    return "passing" if run.conclusion in PASSING else "failing"


def _expected(contexts: Sequence[str], of: int | None = None) -> str:
    total = of or len(contexts)
    if len(contexts) == 1:
        return f'Required status check "{contexts[0]}" is expected.'
    return f"{len(contexts)} of {total} required status checks are expected."
