"""Apply a configuration to the operator's policy, for each base branch; and write a policy as a file."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from queue_engine.config import freezes, timing
from queue_engine.config.kinds import ConfigModel
from queue_engine.config.model import BranchRules, CheckRule, Config, Rules
from queue_engine.config.patterns import branch_matches, is_specific
from queue_engine.domain.facts import MergeMethod, Permission, RequiredCheck
from queue_engine.domain.policy import (
    FIX,
    CommentPolicy,
    GithubMergePolicy,
    Mode,
    NotReadyPolicy,
    NotReadyPushPolicy,
    Policy,
    PriorityLabel,
    PushPolicy,
    has_label,
)
from queue_engine.domain.train_policy import Candidates, TrainForks, TrainSplit


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the file, its field of the policy, and the conversions between both."""

    name: str
    """With its section: `checks.timeout`."""
    field: str
    meant: Callable[[Any], object]
    shown: Callable[[Any], object]


def _same(value: Any) -> object:
    return value


def _folded(values: Iterable[str]) -> frozenset[str]:
    return frozenset(value.casefold() for value in values)


def _teams(values: Iterable[str]) -> frozenset[str]:
    return _folded(value.removeprefix("@") for value in values)


def _method(value: str) -> MergeMethod | None:
    return None if value == "auto" else MergeMethod(value)


def _limit(value: timedelta | None) -> str:
    return "auto" if value is None else timing.shown(value)


def _checks(checks: Iterable[CheckRule]) -> frozenset[RequiredCheck]:
    return frozenset(RequiredCheck(each.name, each.app) for each in checks)


def _shown_checks(checks: Iterable[RequiredCheck]) -> list[object]:
    return [_check(each) for each in sorted(checks, key=lambda each: (each.name, each.app_id or 0))]


def _check(check: RequiredCheck) -> object:
    return check.name if check.app_id is None else {"name": check.name, "app": check.app_id}


_FIELDS = {"first": "hotfix", "interrupts": "preempts", "fixes_base": "fixes_base"}
"""The fields of a `PriorityLabel` that a label may give, by their keys in the file."""


def _priorities(rules: Mapping[str, Iterable[tuple[str, Any]]]) -> tuple[PriorityLabel, ...]:
    """Read the priority labels, and add the default label for fixes unless the file names that label or another one."""
    given = tuple(
        PriorityLabel(label, **{_FIELDS.get(key, key): value for key, value in rule}) for label, rule in rules.items()
    )
    named = any(each.fixes_base for each in given) or has_label(rules, [FIX.label])
    return given if named else (*given, FIX)


def _label_priority(given: PriorityLabel) -> object:
    marks = {key: True for key, name in _FIELDS.items() if getattr(given, name)}
    return {"priority": given.priority, **marks} if marks else given.priority


KEYS = (
    Key("mode", "mode", Mode, str),
    Key("enabled", "served", _same, _same),
    Key("trigger_labels", "trigger_labels", tuple, list),
    Key("depth", "max_depth", _same, _same),
    Key("when_not_ready", "when_not_ready", NotReadyPolicy, str),
    Key("on_push.queued", "on_push", PushPolicy, str),
    Key("on_push.waiting", "on_waiting_push", NotReadyPushPolicy, str),
    Key("on_push.requeue_for", "requeue_for", _folded, sorted),
    Key("auto_merge", "auto_merge", GithubMergePolicy, str),
    Key("who_may_queue.permission", "may_queue", Permission, str),
    Key("who_may_queue.people", "may_queue_too", _folded, sorted),
    Key("who_may_queue.teams", "may_queue_teams", _teams, sorted),
    Key("blocking.labels", "blocking_labels", _folded, sorted),
    Key("blocking.titles", "blocking_titles", tuple, list),
    Key(
        "priority.labels",
        "priorities",
        _priorities,
        lambda given: {each.label: _label_priority(each) for each in given},
    ),
    Key("priority.ageing", "ageing", _same, timing.shown),
    Key("fair_share.enabled", "fair_share", _same, _same),
    Key("fair_share.waiting", "share_waiting", _same, _same),
    Key("fair_share.agents", "agents", lambda agents: tuple(each.casefold() for each in agents), list),
    Key("merge.method", "method", _method, lambda value: "auto" if value is None else str(value)),
    Key(
        "merge.method_labels",
        "method_labels",
        lambda methods: {label.casefold(): MergeMethod(method) for label, method in methods.items()},
        lambda methods: {label: str(method) for label, method in methods.items()},
    ),
    Key("merge.title", "commit_title", _same, _same),
    Key("merge.body", "commit_body", _same, _same),
    Key("merge.delete_branch", "delete_branch", _same, _same),
    Key("checks.required", "required_checks", _checks, _shown_checks),
    Key("checks.queue_only", "queue_only_checks", _checks, _shown_checks),
    Key("checks.testing_label", "testing_label", _same, _same),
    Key("checks.ignored", "ignored_checks", tuple, list),
    Key("checks.land_without", "land_without_checks", _same, _same),
    Key("checks.timeout", "check_timeout", _same, _limit),
    Key("checks.fallback_timeout", "fallback_check_timeout", _same, timing.shown),
    Key("checks.reruns", "check_reruns", _same, _same),
    Key("checks.cancel_outdated", "cancel_outdated", _same, _same),
    Key("checks.untested_paths", "untested_paths", tuple, list),
    Key("checks.first_report", "first_report", _same, timing.shown),
    Key("checks.settle", "settle", _same, timing.shown),
    Key("timeouts.update", "update_timeout", _same, timing.shown),
    Key("timeouts.hold", "hold_timeout", _same, timing.shown),
    Key("timeouts.ready", "ready_timeout", _same, timing.shown),
    Key("timeouts.run", "run_timeout", _same, timing.shown),
    Key("trains.candidates", "train_candidates", Candidates, str),
    Key("trains.runs", "train_runs", _same, lambda runs: "auto" if runs is None else runs),
    Key("trains.max_size", "train_size", _same, _same),
    Key("trains.first_report", "train_first_report", _same, timing.shown),
    Key("trains.split", "train_split", TrainSplit, str),
    Key("trains.forks", "train_forks", TrainForks, str),
    Key(
        "freeze.windows",
        "freezes",
        lambda windows: tuple(each.freeze() for each in windows),
        lambda given: [freezes.shown(each) for each in given],
    ),
    Key("freeze.exempt_labels", "freeze_exempt_labels", _folded, sorted),
    Key("comments.level", "comments", CommentPolicy, str),
    Key("comments.texts", "texts", dict, dict),
)
"""Every key, in the order of the file's model. Only the operator sets the other fields of a policy."""


def policy_for(config: Config, defaults: Policy, base_branch: str) -> Policy:
    """Compute the policy of a base branch: the operator's, then the file's top level, then the branch's rule."""
    rule = rule_for(config, base_branch)
    policy = _with(defaults, config)
    return policy if rule is None else replace(_with(policy, rule), is_named=_names(rule, base_branch))


def rule_for(config: Config, base_branch: str) -> BranchRules | None:
    """Find the first rule with a pattern that matches this branch."""
    for rule in config.branches or ():
        if any(branch_matches(pattern, base_branch) for pattern in rule.match):
            return rule
    return None


def _names(rule: BranchRules, base_branch: str) -> bool:
    """Whether the rule names this branch: a pattern for any branches, as `**`, names none."""
    return any(branch_matches(pattern, base_branch) and is_specific(pattern) for pattern in rule.match)


def levels(config: Config, defaults: Policy) -> tuple[tuple[tuple[str, ...], Policy], ...]:
    """Return the policy of each rule with its patterns, in order, after the policy of branches without a rule."""
    common = _with(defaults, config)
    rules = ((tuple(rule.match), _with(common, rule)) for rule in config.branches or ())
    return (((), common), *rules)


def labels_of(config: Config, defaults: Policy) -> tuple[str, ...]:
    """Return the trigger labels of all branches, each once without regard to case."""
    levels = (
        _with(defaults, config),
        *(_with(defaults, rule) for rule in config.branches or () if rule.trigger_labels),
    )
    found: dict[str, str] = {}
    for label in (label for policy in levels for label in policy.trigger_labels):
        found.setdefault(label.casefold(), label)
    return tuple(found.values())


def queue_only_labels_of(config: Config, defaults: Policy) -> tuple[str, ...]:
    """Return the testing labels of all branches with queue-only checks, each once without regard to case."""
    found: dict[str, str] = {}
    for _, policy in levels(config, defaults):
        if policy.queue_only_checks:
            found.setdefault(policy.testing_label.casefold(), policy.testing_label)
    return tuple(found.values())


def as_keys(policy: Policy) -> dict[str, Any]:
    """Format a policy as nested keys of the file, with values of JSON; a freeze as one line."""
    shown: dict[str, Any] = {}
    for key in KEYS:
        *sections, last = key.name.split(".")
        within = shown
        for section in sections:
            within = within.setdefault(section, {})
        value = getattr(policy, key.field)
        within[last] = None if value is None and last in ("title", "body") else key.shown(value)
    return shown


def _with(policy: Policy, rules: Rules) -> Policy:
    """Replace the fields of a policy that the rules set; lists are replaced as a whole."""
    changes: Mapping[str, Any] = {key.field: key.meant(_value(rules, key)) for key in KEYS if _is_set(rules, key)}
    return replace(policy, **changes)


def _is_set(rules: ConfigModel, key: Key) -> bool:
    section: ConfigModel | None = rules
    *sections, last = key.name.split(".")
    for name in sections:
        section = getattr(section, name)
    return section is not None and last in section.model_fields_set


def _value(rules: ConfigModel, key: Key) -> Any:
    value: Any = rules
    for name in key.name.split("."):
        value = getattr(value, name)
    return value
