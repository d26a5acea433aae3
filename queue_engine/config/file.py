"""The file as pydantic reads it: models made of the declared keys, its JSON Schema, and what it makes of a policy."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, create_model

from queue_engine.config.keys import Key, Section, changed, declared
from queue_engine.config.kinds import MOST, ConfigModel, Some, Wildcards
from queue_engine.config.model import KEYS, Policy
from queue_engine.config.patterns import branch_matches, is_specific


def _model(of: type[Any], without: Collection[str] = ()) -> type[ConfigModel]:
    """Make the model of a section, or of the file, in which no key has a default."""
    forms: dict[str, Any] = {
        name: (_form(found) | None, Field(None, description=found.text))
        for name, found in declared(of)
        if name not in without
    }
    return create_model(of.__name__, __base__=ConfigModel, __doc__=of.__doc__, **forms)


@cache
def _form(found: Key | Section) -> Any:
    if isinstance(found, Key):
        return found.kind.form
    model = _model(found.of)
    if found.short is None:
        return model
    return Annotated[model, BeforeValidator(found.short, json_schema_input_type=found.written | model)]


if TYPE_CHECKING:

    class _Rules(ConfigModel):
        mode: str | None = None

    _BranchRules = _Rules
else:
    _Rules, _BranchRules = _model(Policy), _model(Policy, ("mode",))


class BranchRules(_BranchRules):
    """Rules for the base branches that match; other keys are as at the top level."""

    match: Some[Wildcards] = Field(
        description="Base branches, or wildcards: `main`, `release/*`, `**`. The first rule that matches holds."
    )


class Config(_Rules):
    """Rules of IMQ's merge queue: `.github/imq.yml`."""

    branches: list[BranchRules] | None = Field(
        None, max_length=MOST, description="Rules for some base branches, which replace those at the top level."
    )


def json_schema() -> dict[str, Any]:
    """Return the schema, in draft 2020-12."""
    schema = _plain(Config.model_json_schema(by_alias=True))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "IMQ merge queue", **schema}


def _plain(node: Any, *, names: bool = False) -> Any:
    """Remove pydantic's titles, and null as a default; `names`: the keys of this node are the configuration's own."""
    if isinstance(node, list):
        return [_plain(each) for each in node]
    if not isinstance(node, dict):
        return node
    if names:
        return {name: _plain(each) for name, each in node.items()}
    return {
        word: _plain(value, names=word in ("properties", "$defs"))
        for word, value in node.items()
        if word != "title" and not (word == "default" and value is None)
    }


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


_BY_SECTION = tuple(tuple(keys) for _, keys in groupby(KEYS, lambda key: key.sections))


def followed(policy: Policy, rules: ConfigModel) -> Policy:
    """Replace what the rules set; lists are replaced as a whole."""
    values = dict[Key, Any]()
    for keys in _BY_SECTION:
        if (section := keys[0].within(rules)) is not None:
            its = section.model_fields_set
            values |= {key: key.kind.meant(getattr(section, key.last)) for key in keys if key.last in its}
    found: Policy = changed(policy, values)
    return found
