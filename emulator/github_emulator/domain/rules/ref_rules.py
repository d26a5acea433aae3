"""What rules say to a branch that is created, moved or deleted without a pull request, in GitHub's words.

All violations are listed, not the first alone (Kong/kong-operator #4536). Where sources differ there is a switch.
"""

import re
from collections.abc import Iterable

from github_emulator.core.errors import Invalid
from github_emulator.domain.rules.required_checks import RequiredChecks
from github_emulator.domain.rules.rules import Rules
from github_emulator.domain.rules.ruleset_scope import bypass_mode, is_named
from github_emulator.domain.rules.signatures import verified
from github_emulator.events.context import Context
from github_emulator.state import Actor, Protection, Repository, Ruleset


class RefRules:
    """Judges changes of branches by rulesets and classic protection."""

    def __init__(self, context: Context, *, rules: Rules, required_checks: RequiredChecks) -> None:
        self._context = context
        self._rules = rules
        self._required_checks = required_checks

    def check(
        self, repository: Repository, branch: str, before: str | None, after: str | None, *, actor: Actor, force: bool
    ) -> None:
        """Raise Invalid when the rules refuse to take a branch from `before` to `after`; None: it is not there."""
        found: list[str] = []
        for ruleset in self._rules.rulesets(repository, branch):
            if not self._bypasses(ruleset, actor):
                found += self._violations(repository, ruleset, branch, before, after, force)
        by_rulesets = bool(found)
        protection = self._rules.protection(repository, branch)
        # A branch that only a pattern protects may be created by every writer (open-telemetry/community #2696).
        if protection and before is not None and not self._rules.spares(repository, protection, actor):
            found += self._of_protection(repository, protection, after, actor, force)
        if not found:
            return
        listed = "\n\n".join(dict.fromkeys(found))
        raise Invalid(f"Repository rule violations found\n\n{listed}\n\n" if by_rulesets else listed)

    def _bypasses(self, ruleset: Ruleset, actor: Actor) -> bool:
        mode = bypass_mode(ruleset, actor)
        if mode == "always":
            return actor.app is None or self._context.behaviour.apps_bypass_updates
        return mode == "exempt"

    def _violations(
        self,
        repository: Repository,
        ruleset: Ruleset,
        branch: str,
        before: str | None,
        after: str | None,
        force: bool,
    ) -> Iterable[str]:
        if after is None:
            # WordPress/WordPress-Coding-Standards #2751: the words, and that a merge goes through all the same.
            yield from ["Cannot delete this branch"] if ruleset.deletion else []
            return
        if before is None:
            yield from self._of_creation(ruleset, branch)
        else:
            yield from _of_update(ruleset, force)
        if ruleset.reviews and (before is not None or self._context.behaviour.pull_request_rule_on_create):
            yield "Changes must be made through a pull request."
        if before is not None or ruleset.checks_on_create:
            yield from self._required_checks.unmet(repository, after, ruleset.required_checks)
            yield from self._required_checks.unmet_workflows(repository, after, ruleset.workflows)
        yield from self._of_commits(repository, ruleset, branch, before, after)

    def _of_creation(self, ruleset: Ruleset, branch: str) -> Iterable[str]:
        if ruleset.creation:
            # The words of dmf-mxl/mxl #356.
            yield "Cannot create ref due to creations being restricted."
        if ruleset.branch_name and re.search(ruleset.branch_name, branch) is None:
            yield f"Branch name must match a given regex pattern: {ruleset.branch_name}"

    def _of_commits(
        self, repository: Repository, ruleset: Ruleset, branch: str, before: str | None, after: str
    ) -> Iterable[str]:
        """What is wrong with the commits that are new, each commit named (Kong/kong-operator #4536).

        New to the branch or to all branches, as `known_commits_judged` says; a new branch brings those new to all.
        """
        if not (ruleset.linear_history or ruleset.signatures or ruleset.commit_message):
            return
        git = repository.git
        tips = [tip for name, tip in git.branches().items() if name != branch or tip != after]
        if before is not None and self._context.behaviour.known_commits_judged:
            tips = [before]
        known = {commit.sha for tip in tips for commit in git.log(tip)}
        brought = [commit for commit in git.log(after) if commit.sha not in known]
        if ruleset.linear_history:
            merges = [commit.sha for commit in brought if len(commit.parents) > 1]
            yield from _counted("This branch must not contain merge commits.", merges)
        if ruleset.commit_message:
            wrong = [commit.sha for commit in brought if re.search(ruleset.commit_message, commit.message) is None]
            yield from _counted(f"Commit message must match a given regex pattern: {ruleset.commit_message}", wrong)
        if ruleset.signatures:
            unsigned = [commit.sha for commit in brought if not verified(self._context.state, commit)]
            yield from _counted("Commits must have verified signatures.", unsigned)

    def _of_protection(
        self, repository: Repository, protection: Protection, after: str | None, actor: Actor, force: bool
    ) -> Iterable[str]:
        if after is None and not protection.allow_deletions:
            yield "Cannot delete this protected branch"
        if force and not protection.allow_force_pushes:
            yield "Cannot force-push to this protected branch"
        if protection.lock:
            yield "Cannot change this locked branch"
        if protection.restrict_pushes is not None and not is_named(actor, protection.restrict_pushes):
            yield "You're not authorized to push to this branch."
        if after is None:
            return
        if protection.reviews and not is_named(actor, protection.reviews.spared):
            yield "Changes must be made through a pull request."
        yield from self._required_checks.unmet(repository, after, protection.required_checks)
        if protection.required_linear_history and len(repository.git.must(after).parents) > 1:
            yield "This branch must not contain merge commits."


def _of_update(ruleset: Ruleset, force: bool) -> Iterable[str]:
    if force and ruleset.non_fast_forward:
        yield "Cannot force-push to this branch"
    if ruleset.merge_queue:
        yield "Changes must be made through the merge queue"
    if ruleset.update:
        yield "Cannot update this protected ref."


def _counted(sentence: str, commits: list[str]) -> Iterable[str]:
    if commits:
        noun = "violation" if len(commits) == 1 else "violations"
        yield "\n\n".join([sentence, f"Found {len(commits)} {noun}:", *commits])
