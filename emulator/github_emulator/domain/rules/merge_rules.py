"""Whether the rules of its base branch let a pull request be merged, in the words of GitHub's merge endpoint."""

from collections.abc import Iterable

from github_emulator.domain.pulls.pulls import Pulls
from github_emulator.domain.rules.required_checks import RequiredChecks, sentence
from github_emulator.domain.rules.reviews import Reviews
from github_emulator.domain.rules.rules import Requirement, Rules, up_to_date
from github_emulator.domain.rules.ruleset_scope import is_named
from github_emulator.domain.rules.signatures import verified
from github_emulator.state import Actor, PullRequest, State


class MergeRules:
    """Judges pull requests by what the rules of their base branch require."""

    def __init__(
        self, state: State, *, rules: Rules, reviews: Reviews, required_checks: RequiredChecks, pulls: Pulls
    ) -> None:
        self._state = state
        self._rules = rules
        self._reviews = reviews
        self._required_checks = required_checks
        self._pulls = pulls

    def merge_violations(self, pull: PullRequest, *, actor: Actor | None = None, method: str = "") -> list[str]:
        """Why the rules refuse to merge this pull request, in GitHub's words; empty when nothing stands against it."""
        violations: list[str] = []
        from_ruleset = False
        protection = self._rules.protection(pull.repository, pull.base_branch)
        pushers = protection.restrict_pushes if protection else None
        if actor is not None and pushers is not None and not is_named(actor, pushers):
            violations.append("You're not authorized to push to this branch.")
        for demand in self._rules.demands(pull.repository, pull.base_branch, actor):
            found = list(self._violations_of(pull, demand, method))
            from_ruleset = from_ruleset or (demand.from_ruleset and bool(found))
            violations += [text for text in found if text not in violations]
        if from_ruleset:
            return ["Repository rule violations found\n\n" + "\n\n".join(violations) + "\n\n"]
        return violations

    def missing_approvals(self, pull: PullRequest) -> bool:
        """Whether people still have to agree."""
        demands = self._rules.demands(pull.repository, pull.base_branch)
        return any(next(self._reviews.missing(pull, demand.reviews), None) for demand in demands if demand.reviews)

    def _violations_of(self, pull: PullRequest, demand: Requirement, method: str) -> Iterable[str]:
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
            yield from self._reviews.missing(pull, demand.reviews)
        if demand.threads and any(thread.resolved_by is None for thread in pull.threads):
            yield "A conversation must be resolved before this pull request can be merged."
        environments = [name for name in demand.deployments if name not in repository.deployed.get(head, ())]
        if environments:
            noun = "deployment" if len(environments) == 1 else "deployments"
            yield f"Missing successful active {' and '.join(environments)} {noun}."
        if demand.strict and demand.checks and not up_to_date(pull):
            # GitHub forgets results of a head that is behind: strict checks count as expected, however green.
            words = {check.context: "expected" for check in demand.checks}
            yield from sentence(words, of=len(words))
        else:
            yield from self._required_checks.unmet(repository, self._required_checks.judged_commit(pull), demand.checks)
        yield from self._required_checks.unmet_workflows(repository, head, demand.workflows)
        yield from self._required_checks.unscanned(repository, head, demand.code_scanning)

    def _all_signed(self, pull: PullRequest) -> bool:
        return all(verified(self._state, commit) for commit in self._pulls.commits(pull))
