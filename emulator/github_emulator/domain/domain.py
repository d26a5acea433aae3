"""All parts of the domain, wired: the only module that knows every part and the order of what follows an event."""

from pathlib import Path

from github_emulator.domain.accounts.accounts import Accounts
from github_emulator.domain.accounts.repositories import Repositories
from github_emulator.domain.accounts.repository_changes import RepositoryChanges
from github_emulator.domain.accounts.repository_paths import RepositoryPaths
from github_emulator.domain.checks.actions import Actions
from github_emulator.domain.checks.checks import Checks
from github_emulator.domain.merging.async_merges import AsyncMerges
from github_emulator.domain.merging.auto_merges import AutoMerges
from github_emulator.domain.merging.mergeability import Mergeability
from github_emulator.domain.merging.merging import Merging
from github_emulator.domain.pulls.conversation import Conversation
from github_emulator.domain.pulls.pulls import Pulls
from github_emulator.domain.pulls.stacks import Stacks
from github_emulator.domain.refs.refs import Refs
from github_emulator.domain.refs.tags import OwnRefs, Tags
from github_emulator.domain.rules.merge_rules import MergeRules
from github_emulator.domain.rules.ref_rules import RefRules
from github_emulator.domain.rules.required_checks import RequiredChecks
from github_emulator.domain.rules.reviews import Reviews
from github_emulator.domain.rules.rules import Rules
from github_emulator.events.context import Context
from github_emulator.events.events import BaseChanged, HeadMoved, PullRequestClosed, PullRequestDrafted, RepositoryEvent
from github_emulator.events.history import History


class Domain:
    """Every part, by name. A part is constructed after the parts that it uses, so there is no circle."""

    def __init__(self, context: Context, directory: Path) -> None:
        self.context = context
        self.history = History(context.clock, context.schedule, context.state)
        self.paths = paths = RepositoryPaths(context.state)
        self.accounts = accounts = Accounts(context, paths=paths)
        self.repositories = Repositories(context, directory, accounts=accounts)
        self.repository_changes = RepositoryChanges(context, accounts=accounts, paths=paths)
        self.checks = checks = Checks(context, history=self.history)
        self.actions = Actions(context, accounts=accounts, checks=checks)
        self.stacks = stacks = Stacks(context, history=self.history)
        self.pulls = pulls = Pulls(context, accounts=accounts, stacks=stacks)
        self.conversation = Conversation(context, accounts=accounts, pulls=pulls)
        self.rules = rules = Rules(context, accounts=accounts)
        self.reviews = Reviews(context, accounts=accounts, pulls=pulls, conversation=self.conversation, rules=rules)
        required_checks = RequiredChecks(context.behaviour, checks)
        self.merge_rules = merge_rules = MergeRules(
            context.state, rules=rules, reviews=self.reviews, required_checks=required_checks, pulls=pulls
        )
        ref_rules = RefRules(context, rules=rules, required_checks=required_checks)
        self.refs = refs = Refs(context, accounts=accounts, checks=checks, pulls=pulls, ref_rules=ref_rules)
        self.tags = Tags(context.events, refs=refs)
        self.own_refs = OwnRefs(context, refs=refs)
        self.mergeability = Mergeability(
            context, history=self.history, checks=checks, pulls=pulls, rules=rules, merge_rules=merge_rules
        )
        self.merging = merging = Merging(
            context,
            accounts=accounts,
            pulls=pulls,
            rules=rules,
            merge_rules=merge_rules,
            ref_rules=ref_rules,
            refs=refs,
        )
        self.async_merges = AsyncMerges(
            context, pulls=pulls, stacks=stacks, rules=rules, merge_rules=merge_rules, refs=refs, merging=merging
        )
        self.auto_merges = AutoMerges(
            context,
            accounts=accounts,
            pulls=pulls,
            merge_rules=merge_rules,
            mergeability=self.mergeability,
            merging=merging,
        )
        self._subscribe()

    def _subscribe(self) -> None:
        """Say what follows each event, in GitHub's order; webhooks and CI systems subscribe later."""
        events, auto_merges = self.context.events, self.auto_merges
        events.subscribe(RepositoryEvent, self.history.on_change)
        events.subscribe(RepositoryEvent, auto_merges.on_change)
        events.subscribe(HeadMoved, auto_merges.on_head_moved)
        events.subscribe(HeadMoved, self.reviews.on_head_moved)
        events.subscribe(BaseChanged, auto_merges.on_base_changed)
        events.subscribe(PullRequestClosed, auto_merges.on_closed)
        events.subscribe(PullRequestDrafted, auto_merges.on_drafted)
