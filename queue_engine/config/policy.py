"""Apply a configuration to the operator's policy, for each base branch; and write a policy as a file."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from queue_engine.config.file import BranchRules, Config
from queue_engine.config.keys import Key, changed
from queue_engine.config.kinds import ConfigModel
from queue_engine.config.model import KEYS, Policy
from queue_engine.config.patterns import branch_matches, is_specific


def policy_for(config: Config, defaults: Policy, base_branch: str) -> Policy:
    """Compute the policy of a base branch: the operator's, then the file's top level, then the branch's rule."""
    rule = rule_for(config, base_branch)
    policy = followed(defaults, config)
    return policy if rule is None else replace(followed(policy, rule), is_named=_names(rule, base_branch))


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
    common = followed(defaults, config)
    rules = ((tuple(rule.match), followed(common, rule)) for rule in config.branches or ())
    return (((), common), *rules)


def labels_of(config: Config, defaults: Policy) -> tuple[str, ...]:
    """Return the trigger labels of all branches, each once without regard to case."""
    return _distinct(label for _, policy in levels(config, defaults) for label in policy.trigger_labels)


def queue_only_labels_of(config: Config, defaults: Policy) -> tuple[str, ...]:
    """Return the testing labels of all branches with queue-only checks, each once without regard to case."""
    checks = (policy.checks for _, policy in levels(config, defaults))
    return _distinct(each.testing_label for each in checks if each.queue_only)


def _distinct(labels: Iterable[str]) -> tuple[str, ...]:
    found: dict[str, str] = {}
    for label in labels:
        found.setdefault(label.casefold(), label)
    return tuple(found.values())


def as_keys(policy: Policy) -> dict[str, Any]:
    """Format a policy as nested keys of the file, with values of JSON; a freeze as one line."""
    shown: dict[str, Any] = {}
    for key in KEYS:
        within = shown
        for section in key.sections:
            within = within.setdefault(section, {})
        within[key.last] = key.kind.shown(getattr(key.within(policy), key.last))
    return shown


def followed(policy: Policy, rules: ConfigModel) -> Policy:
    """Replace what the rules set; lists are replaced as a whole."""
    values = {key: key.kind.meant(getattr(key.within(rules), key.last)) for key in KEYS if _is_set(rules, key)}
    found: Policy = changed(policy, values)
    return found


def _is_set(rules: ConfigModel, key: Key) -> bool:
    section = key.within(rules)
    return section is not None and key.last in section.model_fields_set
