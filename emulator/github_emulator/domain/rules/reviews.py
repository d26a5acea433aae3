"""Whether people agree: approvals, code owners, the last push, and what a push does to approvals given before.

Source: GitHub's pages on protected branches and code owners; the sentences are those of its merge endpoint. It says
one sentence about reviews, the first that applies.
"""

from collections.abc import Iterable, Iterator

from github_emulator.domain.accounts.accounts import Accounts
from github_emulator.domain.pulls.conversation import Conversation
from github_emulator.domain.pulls.pulls import Pulls
from github_emulator.domain.rules import codeowners
from github_emulator.domain.rules.rules import Rules
from github_emulator.events.context import Context
from github_emulator.events.events import HeadMoved
from github_emulator.state import PullRequest, Review, ReviewRule, User


class Reviews:
    """Judges the reviews of a pull request against a rule."""

    def __init__(
        self, context: Context, *, accounts: Accounts, pulls: Pulls, conversation: Conversation, rules: Rules
    ) -> None:
        self._context = context
        self._accounts = accounts
        self._pulls = pulls
        self._conversation = conversation
        self._rules = rules

    def missing(self, pull: PullRequest, rule: ReviewRule) -> Iterator[str]:
        """What the rule still asks of people, in GitHub's words; nothing when it is content."""
        verdicts = self._verdicts(pull)
        against = sum(review.state == "CHANGES_REQUESTED" for review in verdicts)
        approvals = [review for review in verdicts if review.state == "APPROVED"]
        owners = self._missing_owners(pull, {review.user for review in approvals}) if rule.code_owners else []
        if against:
            noun = "review" if against == 1 else "reviews"
            yield f"{against} {noun} requesting changes by reviewers with write access."
        elif owners:
            yield f"Waiting on code owner review from {_listed(owners)}."
        elif rule.last_push and not self._agreed_since_last_push(pull, approvals):
            yield "New changes require approval from someone other than the last pusher."
        elif len(approvals) < rule.approvals:
            noun = "approving review is" if rule.approvals == 1 else "approving reviews are"
            yield f"At least {rule.approvals} {noun} required by reviewers with write access."

    def decision(self, pull: PullRequest) -> str | None:
        """GraphQL's `reviewDecision`; None where no rule that GitHub counts there demands a review.

        That is so with zero approvals demanded, too (agent-orchestrator #1173).
        """
        everything = self._rules.demands(pull.repository, pull.base_branch)
        counted = [one for one in everything if self._context.behaviour.decision_of_rulesets or not one.from_ruleset]
        rules = [one.reviews for one in counted if one.reviews and (one.reviews.approvals or one.reviews.code_owners)]
        if not rules:
            return None
        if any(review.state == "CHANGES_REQUESTED" for review in self._verdicts(pull)):
            return "CHANGES_REQUESTED"
        missing = any(next(self.missing(pull, rule), None) for rule in rules)
        return "REVIEW_REQUIRED" if missing else "APPROVED"

    def requested_owners(self, pull: PullRequest) -> list[str]:
        """The code owners, people or teams, whose review is requested and who have given no verdict; drafts have none.

        (docs, "About code owners")
        """
        return [] if pull.draft else self._missing_owners(pull, {review.user for review in self._verdicts(pull)})

    def on_head_moved(self, event: HeadMoved) -> None:
        """The head moved: stale approvals go where a rule says so. A push without changes of its own, such as the
        base merged in, spares them. (GitHub's page on protected branches.)"""
        pull, actor = event.pull, event.actor
        if event.before is not None and self._same_change(pull, event.before):
            return
        pull.last_pusher, pull.reviewable_sha = actor.user, pull.head_sha
        demands = self._rules.demands(pull.repository, pull.base_branch)
        if any(demand.reviews and demand.reviews.dismiss_stale for demand in demands):
            for review in pull.reviews:
                if review.state == "APPROVED":
                    self._conversation.mark_dismissed(pull, review, actor)

    def _verdicts(self, pull: PullRequest) -> list[Review]:
        """The newest verdict of each person who may write."""
        newest: dict[User, Review] = {}
        for review in pull.reviews:
            if review.state != "COMMENTED" and self._accounts.has_role(review.user, pull.repository, "write"):
                newest[review.user] = review
        return list(newest.values())

    def _agreed_since_last_push(self, pull: PullRequest, approvals: Iterable[Review]) -> bool:
        git = pull.repository.git
        return any(
            review.user is not pull.last_pusher and git.is_ancestor(pull.reviewable_sha, review.commit_id)
            for review in approvals
        )

    def _missing_owners(self, pull: PullRequest, agreed: set[User]) -> list[str]:
        git, tip = pull.repository.git, pull.repository.git.branch(pull.base_branch)
        files = git.files(tip) if tip else {}
        text = next((files[place] for place in codeowners.PLACES if place in files), "")
        lines = codeowners.read(text)
        logins = {user.login.lower() for user in agreed}
        missing: dict[str, None] = {}
        for change in self._pulls.files(pull):
            owners = [login for login in codeowners.owners_of(lines, change.filename) if self._counts(pull, login)]
            if owners and not any(self._has_agreed(login, logins) for login in owners):
                missing |= dict.fromkeys(owners)
        return list(missing)

    def _has_agreed(self, owner: str, agreed: set[str]) -> bool:
        team = self._context.state.teams.get(owner.lower())
        logins = {owner.lower()} if team is None else {member.login.lower() for member in team.direct_members}
        return bool(logins & agreed)

    def _counts(self, pull: PullRequest, login: str) -> bool:
        """GitHub ignores owners who may not write."""
        if login.lower() in self._context.state.teams:
            return True
        user = self._context.state.users.get(login.lower())
        return user is not None and self._accounts.has_role(user, pull.repository, "write")

    def _same_change(self, pull: PullRequest, before: str) -> bool:
        return self._change(pull, before) == self._change(pull, pull.head_sha)

    def _change(self, pull: PullRequest, head: str) -> list[tuple[str, str, list[str]]]:
        """What a head brings, without where in the files it stands: the base may have moved the lines."""
        git = pull.repository.git
        base = git.merge_base(git.branch(pull.base_branch) or pull.base_sha, head) or pull.base_sha
        return [
            (change.filename, change.status, [line for line in (change.patch or "").splitlines() if line[:1] in "+-"])
            for change in git.diff(base, head)
        ]


def _listed(logins: list[str]) -> str:
    if len(logins) < 3:
        return " and/or ".join(logins)
    return f"{', '.join(logins[:-1])}, and/or {logins[-1]}"
