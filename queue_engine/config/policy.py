"""Apply a configuration to the operator's policy, for each base branch; and write a policy as a file."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from queue_engine.config.keys import Key
from queue_engine.config.kinds import ConfigModel
from queue_engine.config.model import KEYS, BranchRules, Config, Rules
from queue_engine.config.patterns import branch_matches, is_specific
from queue_engine.domain.policy import (
    Policy,
)


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
        within[last] = None if value is None and last in ("title", "body") else key.kind.shown(value)
    return shown


def _with(policy: Policy, rules: Rules) -> Policy:
    """Replace the fields of a policy that the rules set; lists are replaced as a whole."""
    changes: Mapping[str, Any] = {key.field: key.kind.meant(_value(rules, key)) for key in KEYS if _is_set(rules, key)}
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
