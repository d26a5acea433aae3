"""Show what would happen to a pull request under a configuration, and why, without writing."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from bot.cli.current_status import present
from bot.cli.github import gateway_of
from bot.settings.environment import Settings
from notifications import texts
from queue_engine.admission.required_facts import read_requirements
from queue_engine.config.freezes import frozen_until
from queue_engine.config.model import Config
from queue_engine.config.policy import policy_for, rule_for
from queue_engine.config.shared import limited, not_reviewed
from queue_engine.core.timing.clock import Clock, SystemClock
from queue_engine.domain.errors import GitHubError, NotFound
from queue_engine.domain.facts import BranchRules, CheckReport, CheckState, PullRequest
from queue_engine.domain.model import Repository
from queue_engine.domain.policy import Policy, SharedConfig, has_label
from queue_engine.domain.port import GitHub
from queue_engine.rules.checks import judge, required_checks
from queue_engine.rules.eligibility import Admit, Answer, Consent, Reject, check_eligibility
from queue_engine.rules.merge_method import commit_words, merge_method
from queue_engine.rules.priority import precedence_of


class DryRunFailed(Exception):
    """GitHub did not let it be known; the message says why."""


@dataclass(frozen=True, slots=True)
class DryRun:
    """What would become of a pull request that were queued now."""

    repository: str
    number: int
    title: str
    base_branch: str
    rule: tuple[str, ...] | None
    """The patterns of the rule that holds; None: no rule matches."""
    by: str
    permission: str
    outcome: str
    """queued, refused, held, or closed."""
    reason: str | None
    sentence: str
    detail: str | None
    waits_for: tuple[str, ...]
    """What would still have to happen before it lands, in words."""
    lands_as: str
    not_followed: tuple[str, ...] = ()
    """What of a shared configuration does not count."""
    missing_permissions: tuple[str, ...] = ()
    """What stops working because the App lacks a permission."""
    present: tuple[str, ...] = ()
    """How it and its queue stand at present, or why that is not known."""

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {name: getattr(self, name) for name in self.__slots__}

    def as_text(self) -> str:
        """For people."""
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
        if self.not_followed:
            lines += ["", "Ignored in the shared configuration:", *(f"- {each}" for each in self.not_followed)]
        if self.outcome == "queued":
            lines += ["", "Before it lands:", *(f"- {each}" for each in self.waits_for), "", self.lands_as]
        if self.missing_permissions:
            lines += ["", "Missing permissions of the App:", *(f"- {each}" for each in self.missing_permissions)]
        if self.present:
            lines += ["", "At present:", *(f"- {each}" for each in self.present)]
        return "\n".join("".join(char if char.isprintable() else " " for char in line) for line in lines)


async def foresee(
    settings: Settings, config: Config, repository: str, number: int, *, by: str | None = None, shared: bool = False
) -> DryRun:
    """Ask GitHub, as the App of these settings, and IMQ's database. Raises NotForeseen when GitHub does not tell.

    `shared` says that the configuration is the one in the owner's repository `.github`.
    """
    clock = SystemClock()
    async with gateway_of(settings, clock) as gateway:
        try:
            found = await _repository(gateway, repository)
            allowed = settings.organization_config if shared else SharedConfig.TRUST
            reviewed = not shared or await gateway.organisation_configuration_is_reviewed(found)
            policy_of = partial(_policy, config if reviewed else None, settings.policy(), allowed, found)
            sight = await foreseen(gateway, clock, config, policy_of, found, number, by=by)
            missing = gateway.missing_permissions(found.installation_id)
        except NotFound:
            raise DryRunFailed(f"The App sees no pull request {number} in {repository}.") from None
        except GitHubError as error:
            raise DryRunFailed(f"GitHub refused: {error.message}") from None
    policy = policy_of(sight.base_branch)
    sight = replace(sight, missing_permissions=tuple(f"{name}: {words}" for name, words in missing.items()))
    return replace(sight, present=await present(settings, found.id, number, sight.base_branch, policy, clock.now()))


def _policy(
    config: Config | None, operator: Policy, allowed: SharedConfig, repository: Repository, base_branch: str
) -> Policy:
    """The policy of this branch; without a configuration, which nobody reviews, the operator's."""
    if config is None:
        return replace(operator, not_followed=(not_reviewed(f"{repository.owner}/.github"),))
    return limited(policy_for(config, operator, base_branch), operator, allowed)


async def _repository(github: GitHub, name: str) -> Repository:
    for installation_id in await github.installations():
        for repository in await github.repositories(installation_id):
            if repository.full_name.casefold() == name.casefold():
                return repository
    raise DryRunFailed(f"The App is not installed on {name}.")


async def foreseen(
    github: GitHub,
    clock: Clock,
    config: Config,
    policy_of: Callable[[str], Policy],
    repository: Repository,
    number: int,
    *,
    by: str | None = None,
) -> DryRun:
    """The answer if somebody queued this pull request now. Raises GitHubError."""
    taken = await github.snapshot(repository, number, login=None)
    pull = taken.pull
    policy = policy_of(pull.base_branch)
    rules = await github.branch_rules(repository, pull.base_branch)
    by = by or await _asker(github, repository, pull, policy)
    permission = await github.permission(repository, by)
    answer = check_eligibility(
        replace(pull, labels=pull.labels | {policy.trigger_label}),
        Consent(by, permission, head=pull.head_sha, base_branch=pull.base_branch),
        await read_requirements(github, repository, taken, rules, policy),
        repository=repository,
        depth=0,  # whether there is a place is a matter of the moment, not of the configuration
        policy=policy,
    )
    outcome, reason, sentence, detail = _told(answer, pull, policy)
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
        lands_as=_landing(pull, rules, policy) if outcome == "queued" else "",
        not_followed=policy.not_followed,
    )


def _rule(config: Config, base_branch: str) -> tuple[str, ...] | None:
    """The patterns of the rule that the base branch follows."""
    rule = rule_for(config, base_branch)
    return None if rule is None else tuple(rule.match)


async def _asker(github: GitHub, repository: Repository, pull: PullRequest, policy: Policy) -> str:
    """Who set a trigger label last, if one is there; else its author."""
    for label in policy.trigger_labels:
        if has_label(pull.labels, [label]):
            last = await github.last_labelling(repository, pull.number, label)
            if last is not None and last.by is not None:
                return last.by
    return pull.author


def _told(answer: Answer, pull: PullRequest, policy: Policy) -> tuple[str, str | None, str, str | None]:
    """Outcome, reason code, sentence and detail."""
    if isinstance(answer, Admit):
        return "queued", None, f"It would be queued for {pull.base_branch}.", None
    if isinstance(answer, Reject):
        words = texts.REASONS[answer.reason].sentence.format(base=pull.base_branch, label=policy.trigger_label)
        return "refused", answer.reason.value, f"It would not be queued. {words}", answer.detail
    return "closed", None, "It is not open, so it would not be queued.", None


async def _waits_for(
    github: GitHub, repository: Repository, pull: PullRequest, rules: BranchRules, policy: Policy, now: datetime
) -> tuple[str, ...]:
    standing = precedence_of(pull.labels, policy)
    told: list[str] = []
    if standing.hotfix or standing.priority:
        place = "ahead of all without such a label" if standing.hotfix else f"with priority {standing.priority}"
        told.append(f"it is queued {place}")
    if (frozen := frozen_until(policy, now)) is not None and not standing.freeze_exempt:
        until, why = frozen
        told.append(f"the freeze ends at {until:%Y-%m-%d %H:%M} UTC{f' ({why})' if why else ''}")
    comparison = await github.comparison(repository, pull.base_branch, pull.head_sha)
    if comparison.behind:
        told.append(f"IMQ updates it with {pull.base_branch} (commits behind: {comparison.behind})")
    required = required_checks(rules, policy)
    reports = await github.check_reports(repository, pull.head_sha, required)
    verdict = judge(required, reports, policy.ignored_checks)
    now_there = _states(reports, (*verdict.awaited, *verdict.ended))
    if now_there:
        what = "every required check passes" if required else "every reported check passes, as none is required"
        told.append(f"{what}; now {', '.join(f'{name}: {state}' for name, state in now_there.items())}")
    else:
        told.append("no check is needed" if policy.land_without_checks else "a check reports and passes")
    # Whether these are so now is told by nothing but GitHub's answer to the merge.
    if rules.conversations:
        told.append("every conversation is resolved")
    if rules.deployments:
        told.append(f"it is deployed to {', '.join(rules.deployments)}")
    return tuple(told)


def _states(reports: Iterable[CheckReport], names: Iterable[str]) -> Mapping[str, str]:
    """The worst state of each of these names; those without a report have not come yet."""
    order = (CheckState.FAILED, CheckState.PENDING, CheckState.PASSED)
    states: dict[str, str] = {}
    for name in sorted(set(names)):
        found = [report.state for report in reports if report.name == name]
        states[name] = min(found, key=order.index).value if found else "not reported"
    return states


def _landing(pull: PullRequest, rules: BranchRules, policy: Policy) -> str:
    method = merge_method(pull, rules, policy)
    assert method is not None, "what cannot be merged is not eligible"
    title, _ = commit_words(pull, method, policy)
    as_what = "" if title is None else f' as "{title}"'
    after = ", and its branch is deleted unless another pull request needs it" if policy.delete_branch else ""
    return f"It would land by {method.value}{as_what}{after}."
