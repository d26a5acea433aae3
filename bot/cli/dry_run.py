"""Show what would happen to a pull request under a configuration, and why, without writing."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from bot.cli.console import CommandRefused
from bot.cli.github import gateway_of
from bot.cli.host import open_store
from bot.cli.triggers import trigger_lines
from bot.gateway.people import ReadTeam, with_teams
from bot.settings.environment import Settings
from notifications.render.escape import instant
from notifications.render.status import Names, blocked_sentence, plain, status_lines
from notifications.texts import reason_texts
from notifications.texts.reason_texts import NOT_READY
from queue_engine.admission.required_facts import read_requirements
from queue_engine.config.file import Config, policy_for, rule_for
from queue_engine.config.freezes import frozen_until
from queue_engine.config.model import Policy, TrainRules
from queue_engine.config.shared import limited, not_reviewed
from queue_engine.core.database.outage import fault_of
from queue_engine.core.timing.clock import Clock, SystemClock
from queue_engine.domain.errors import GitHubError, NotFound
from queue_engine.domain.facts import OWN_CHECK, BranchRules, CheckReport, CheckState, PullRequest
from queue_engine.domain.model import Repository
from queue_engine.domain.policy import SharedConfig, has_label
from queue_engine.domain.port import GitHub
from queue_engine.executor.triggers import choice_at
from queue_engine.queries.pull_request_status import load_reply_facts
from queue_engine.rules.checks import head_checks, judge, queue_only_names, requires_own_check, run_checks
from queue_engine.rules.eligibility import Admit, Answer, Consent, NotReady, Reject, check_eligibility
from queue_engine.rules.merge_method import commit_message, merge_method
from queue_engine.rules.priority import precedence_of
from queue_engine.store import Transaction
from queue_engine.workflows.event_context import CandidateContext


async def train_report(
    github: GitHub, repository: Repository, pull: PullRequest, rules: BranchRules, policy: Policy
) -> tuple[str, ...]:
    """Return the lines about trains; none where the configuration has no trains. Raises GitHubError."""
    if not policy.trains.enabled:
        return ()
    comparison = await github.comparison(repository, pull.base_branch, pull.head_sha)
    candidate = CandidateContext(
        repository.full_name, pull.base_branch, f"imq/{pull.base_branch}/1", pull.default_branch or pull.base_branch
    )
    required, wanted = run_checks(rules, policy), policy.trains.candidates
    choice = await choice_at(github, repository, comparison.base_tip, required, candidate, wanted)
    return (_size(policy.trains), *trigger_lines(choice))


def _size(trains: TrainRules) -> str:
    runs = "as many CI runs as CI starts" if trains.runs is None else f"{trains.runs} CI runs"
    runs = "one CI run" if trains.runs == 1 else runs
    return f"IMQ would test up to {trains.max_size} pull requests together, with {runs} at once"


@dataclass(frozen=True, slots=True)
class DryRun:
    """The result of queueing a pull request now."""

    repository: str
    number: int
    title: str
    base_branch: str
    rule: tuple[str, ...] | None
    """The patterns of the rule that applies; None: no rule matches."""
    by: str
    permission: str
    outcome: str
    """queued, waits (outside the queue, until it is ready), refused, or closed."""
    reason: str | None
    sentence: str
    detail: str | None
    waits_for: tuple[str, ...]
    """The conditions for landing, in words."""
    lands_as: str
    unread_teams: tuple[str, ...] = ()
    """The teams of `who_may_queue.teams` that IMQ cannot read."""
    trains: tuple[str, ...] = ()
    """What trains would do, and which lines of workflows are missing; empty where the configuration has none."""
    not_followed: tuple[str, ...] = ()
    """The ignored parts of a shared configuration."""
    missing_permissions: tuple[str, ...] = ()
    """The consequences of permissions that the App lacks."""
    missing_label: str | None = None
    """The label that queues pull requests, if the repository lacks it."""
    present: tuple[str, ...] = ()
    """The current status of the pull request and its queue, or why it is unknown."""

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON data."""
        return {name: getattr(self, name) for name in self.__slots__}

    def as_text(self) -> str:
        """Return the result as text."""
        rule = "no rule of its own" if self.rule is None else f"the rule for {', '.join(self.rule)}"
        lines = [
            f"{self.repository}#{self.number} {self.title}",
            f"Base branch: {self.base_branch} ({rule})",
            f"Queued by: {self.by} ({self.permission})",
            "",
            f"{self.sentence}" + (f" ({self.detail})" if self.detail else ""),
        ]
        if self.reason is not None:
            lines.append(f"Reason: {self.reason}")
        lines += self.unread_teams
        if self.not_followed:
            lines += ["", "Ignored in the shared configuration:", *(f"- {each}" for each in self.not_followed)]
        if self.outcome == "queued":
            lines += ["", "Before it lands:", *(f"- {each}" for each in self.waits_for), "", self.lands_as]
        if self.trains:
            lines += ["", "Trains:", *(f"- {each}" for each in self.trains)]
        if self.missing_label is not None:
            lines += ["", f"The repository has no label {self.missing_label}: create it, or queue with `/queue`."]
        if self.missing_permissions:
            lines += ["", "Missing permissions of the App:", *(f"- {each}" for each in self.missing_permissions)]
        if self.present:
            lines += ["", "At present:", *(f"- {each}" for each in self.present)]
        return "\n".join("".join(char if char.isprintable() else " " for char in line) for line in _split(lines))


def _split(lines: Iterable[str]) -> Iterable[str]:
    return (part for line in lines for part in line.split("\n"))


async def dry_run(
    settings: Settings, config: Config, repository: str, number: int, *, by: str | None = None, shared: bool = False
) -> DryRun:
    """Ask GitHub, as the App of these settings, and IMQ's database. Raises CommandRefused when GitHub does not answer.

    `shared` says that the configuration is the one in the owner's repository `.github`.
    """
    clock = SystemClock()
    async with gateway_of(settings, clock) as gateway:
        try:
            found = await _repository(gateway, repository)
            allowed = settings.organization_config if shared else SharedConfig.TRUST
            reviewed = not shared or await gateway.organisation_configuration_is_reviewed(found)
            policy_of = partial(_policy, config if reviewed else None, settings.policy(), allowed, found)
            result = await predict(
                gateway, clock, config, policy_of, found, number, by=by, read_team=gateway.teams.team
            )
            label = policy_of(result.base_branch).trigger_label
            if not await gateway.doctor.has_label(found, label):
                result = replace(result, missing_label=label)
            missing = gateway.missing_permissions(found.installation_id)
        except NotFound:
            raise CommandRefused(f"The App sees no pull request {number} in {repository}.") from None
        except GitHubError as error:
            raise CommandRefused(f"GitHub refused: {error.message}") from None
    policy = policy_of(result.base_branch)
    result = replace(result, missing_permissions=tuple(f"{name}: {words}" for name, words in missing.items()))
    return replace(
        result, present=await describe_status(settings, found.id, number, result.base_branch, policy, clock.now())
    )


def _policy(
    config: Config | None, operator: Policy, allowed: SharedConfig, repository: Repository, base_branch: str
) -> Policy:
    """Return the policy of this branch; for a shared configuration without review, the operator's."""
    if config is None:
        return replace(operator, not_followed=(not_reviewed(f"{repository.owner}/.github"),))
    return limited(policy_for(config, operator, base_branch), operator, allowed)


async def _repository(github: GitHub, name: str) -> Repository:
    for installation_id in await github.installations():
        for repository in await github.repositories(installation_id):
            if repository.full_name.casefold() == name.casefold():
                return repository
    raise CommandRefused(f"The App is not installed on {name}.")


async def predict(
    github: GitHub,
    clock: Clock,
    config: Config,
    policy_of: Callable[[str], Policy],
    repository: Repository,
    number: int,
    *,
    by: str | None = None,
    read_team: ReadTeam,
) -> DryRun:
    """Return the result of queueing this pull request now. Raises GitHubError."""
    snapshot = await github.snapshot(repository, number, login=None)
    pull = snapshot.pull
    policy = await with_teams(policy_of(pull.base_branch), repository, read_team, file=".github/imq.yml")
    rules = await github.branch_rules(repository, pull.base_branch)
    by = by or await _requester(github, repository, pull, policy)
    permission = await github.permission(repository, by)
    answer = check_eligibility(
        replace(pull, labels=pull.labels | {policy.trigger_label}),
        Consent(by, permission, head_sha=pull.head_sha, base_branch=pull.base_branch),
        await read_requirements(github, repository, snapshot, rules, policy),
        repository=repository,
        policy=policy,
    )
    outcome, reason, sentence, detail = _outcome(answer, pull, policy)
    waits_for = await _waits_for(github, repository, pull, rules, policy, clock.now()) if outcome == "queued" else ()
    return DryRun(
        repository=repository.full_name,
        number=number,
        title=pull.title,
        base_branch=pull.base_branch,
        rule=_rule(config, pull.base_branch),
        by=by,
        permission=permission.value,
        outcome=outcome,
        reason=reason,
        sentence=sentence,
        detail=detail,
        waits_for=waits_for,
        lands_as=_merge_sentence(pull, rules, policy) if outcome == "queued" else "",
        unread_teams=tuple(f"{each}." for each in policy.unread_teams) or _no_teams(policy),
        trains=await train_report(github, repository, pull, rules, policy),
        not_followed=policy.not_followed,
    )


def _no_teams(policy: Policy) -> tuple[str, ...]:
    """Return the fault of a file that names teams of a personal account."""
    return () if policy.fault is None else (f"{policy.fault}.",)


def _rule(config: Config, base_branch: str) -> tuple[str, ...] | None:
    """Return the patterns of the rule that applies to the base branch."""
    rule = rule_for(config, base_branch)
    return None if rule is None else tuple(rule.match)


async def _requester(github: GitHub, repository: Repository, pull: PullRequest, policy: Policy) -> str:
    """Return the person who last set a trigger label, else the author."""
    for label in policy.trigger_labels:
        if has_label(pull.labels, [label]):
            last = await github.last_labeled_event(repository, pull.number, label)
            if last is not None and last.by is not None:
                return last.by
    return pull.author


def _outcome(answer: Answer, pull: PullRequest, policy: Policy) -> tuple[str, str | None, str, str | None]:
    """Return outcome, reason code, sentence and detail."""
    if isinstance(answer, Admit):
        return "queued", None, f"It would be queued for {pull.base_branch}.", None
    if isinstance(answer, Reject):
        words = reason_texts.REASONS[answer.reason].sentence.format(base=pull.base_branch, label=policy.trigger_label)
        return "refused", answer.reason.value, f"It would not be queued. {words}", answer.detail
    if isinstance(answer, NotReady):
        first = answer.unmet[0]
        words = NOT_READY[first.reason].sentence.format(base=pull.base_branch)
        return "waits", first.reason.value, f"It would wait outside the queue. {words}", first.detail
    return "closed", None, "It is not open, so it would not be queued.", None


async def _waits_for(
    github: GitHub, repository: Repository, pull: PullRequest, rules: BranchRules, policy: Policy, now: datetime
) -> tuple[str, ...]:
    precedence = precedence_of(pull.labels, policy)
    steps: list[str] = []
    if precedence.hotfix or precedence.priority:
        place = "ahead of all without such a label" if precedence.hotfix else f"with priority {precedence.priority}"
        steps.append(f"it is queued {place}")
    if (frozen := frozen_until(policy.freeze.windows, now)) is not None and not precedence.freeze_exempt:
        until, why = frozen
        steps.append(f"the freeze ends at {until:%Y-%m-%d %H:%M} UTC{f' ({why})' if why else ''}")
    comparison = await github.comparison(repository, pull.base_branch, pull.head_sha)
    if comparison.behind:
        steps.append(f"IMQ updates it with {pull.base_branch} (commits behind: {comparison.behind})")
    required = head_checks(rules, policy)
    reports = await github.check_reports(repository, pull.head_sha, required)
    verdict = judge(required, reports, policy.checks.ignored)
    states = _states(reports, (*verdict.pending_names, *verdict.completed_names))
    if states:
        condition = "every required check passes" if required else "every reported check passes, as none is required"
        steps.append(f"{condition}; now {', '.join(f'{name}: {state}' for name, state in states.items())}")
    else:
        steps.append("no check is needed" if policy.checks.land_without else "a check reports and passes")
    if policy.checks.queue_only:
        names = ", ".join(sorted(queue_only_names(policy)))
        steps.append(
            f"checks that run in the queue alone pass: {names}; IMQ starts them by {policy.checks.testing_label}"
        )
    if policy.checks.untested_paths:
        steps.append(_kept(pull, rules, policy))
    if requires_own_check(rules, policy):
        steps.append(
            f"IMQ's own check {OWN_CHECK} passes: IMQ reports that right before the merge, so no one else can merge"
        )
    # GitHub says only in its answer to the merge whether these conditions are met.
    if rules.conversations:
        steps.append("every conversation is resolved")
    if rules.deployments:
        steps.append(f"it is deployed to {', '.join(rules.deployments)}")
    return tuple(steps)


def _kept(pull: PullRequest, rules: BranchRules, policy: Policy) -> str:
    """Say what a commit to the base that needs no test means for the run."""
    if rules.up_to_date:
        return f"each push to {pull.base_branch} restarts its checks: it requires up-to-date branches"
    return f"a push to {pull.base_branch} restarts its checks, unless it changes only files that need no test"


def _states(reports: Iterable[CheckReport], names: Iterable[str]) -> Mapping[str, str]:
    """Return the worst state of each of these checks."""
    order = (CheckState.FAILED, CheckState.PENDING, CheckState.PASSED)
    states: dict[str, str] = {}
    for name in sorted(set(names)):
        found = [report.state for report in reports if report.name == name]
        states[name] = min(found, key=order.index).value if found else "not reported"
    return states


def _merge_sentence(pull: PullRequest, rules: BranchRules, policy: Policy) -> str:
    method = merge_method(pull, rules, policy)
    assert method is not None, "what cannot be merged is not eligible"
    title = commit_message(pull, method, policy).title
    message = "" if title is None else f' as "{title}"'
    after = ", and its branch is deleted unless another pull request needs it" if policy.merge.delete_branch else ""
    return f"It would land by {method.value}{message}{after}."


async def describe_status(
    settings: Settings, repository_id: int, number: int, base_branch: str, policy: Policy, now: datetime
) -> tuple[str, ...]:
    """Return sentences of IMQ's database: its position and the queue's blockers, or why it could not be read."""
    try:
        async with open_store(settings) as store, store.reading() as tx:
            return await _status_of(tx, repository_id, number, base_branch, policy, now)
    except CommandRefused as refused:
        why = refused.message
    except Exception as error:
        if (fault := fault_of(error)) is None:
            raise
        why = fault.sentence
    return (f"The state of the queue is unknown: {why}",)


async def _status_of(
    tx: Transaction, repository_id: int, number: int, base_branch: str, policy: Policy, now: datetime
) -> tuple[str, ...]:
    facts = await load_reply_facts(tx, repository_id, number, base_branch, policy, now)
    found, queue = facts.pull_request, facts.queue
    names = Names.of(base_branch, policy)
    lines = [plain(line.sentence) for line in status_lines(found, names)]
    if (rejected := found.rejected) is not None:
        lines.append(f"Its head {rejected.head_sha[:7]} was rejected at {instant(rejected.at)}.")
    if queue is None:
        return (*lines, f"No pull request was queued for {base_branch} yet.")
    if found.entry is None:
        if policy.depth and queue.depth + queue.held >= policy.depth:
            lines.append(f"The queue is full with {queue.depth} pull requests.")
        lines += [plain(blocked_sentence(each, names)) for each in queue.blockers]
    return (*lines, f"Pull requests in the queue for {base_branch}: {queue.depth}.")
