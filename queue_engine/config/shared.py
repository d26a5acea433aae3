"""Limit what an organisation's shared configuration may change, key by key: by default it only makes rules stricter.

A member who may create the repository `.github` of an organisation writes its shared configuration, and so sets rules
for repositories without a permission on them. So the file may reject pull requests and require more. Who may queue,
which changes land unchecked, what is merged and what IMQ comments is up to the operator and each repository's own file.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from queue_engine.config import file as file_policy
from queue_engine.config.file import Config
from queue_engine.config.keys import Key, changed
from queue_engine.config.model import KEYS, Policy
from queue_engine.domain.policy import SharedConfig

IS_OFF = "the whole file is ignored: IMQ_ORGANIZATION_CONFIG is off"

Levels = tuple[tuple[tuple[str, ...], Policy], ...]
"""Policies with the patterns of their branches."""


@dataclass(frozen=True, slots=True)
class SharedProblem:
    """A key of a shared configuration that would loosen the operator's rules, and so does not count."""

    key: Key

    def __str__(self) -> str:
        may = "not be set" if self.key.shared.may == "nothing" else f"only be {self.key.shared.may.replace('`', '')}"
        return f"{self.key.name} is ignored: in a shared configuration it may {may}, or else {self.key.shared.risk}"


def tightened(wanted: Policy, operator: Policy) -> tuple[Policy, tuple[SharedProblem, ...]]:
    """Apply a shared configuration as far as it is stricter than the operator's policy, and list the ignored keys."""
    effective, loosening = {}, []
    for key in KEYS:
        section = key.within(operator)
        given, asked = getattr(section, key.last), getattr(key.within(wanted), key.last)
        effective[key] = value = key.shared.stricter(section, given, asked)
        if value != asked and not _contains(value, asked):
            loosening.append(SharedProblem(key))
    # Pull requests would be queued for a branch whose owners did not say that it is one to land on.
    return replace(changed(wanted, effective), is_named=operator.is_named), tuple(loosening)


def not_reviewed(repository: str) -> str:
    """Say why the shared configuration in this repository does not count at all."""
    return (
        f"the whole file in {repository} is ignored: no rule requires an approving review of its default branch, "
        "or IMQ may not read its rules"
    )


def limited(wanted: Policy, operator: Policy, allowed: SharedConfig) -> Policy:
    """Limit a shared configuration's policy to the operator's choice; `not_followed` lists the ignored keys."""
    match allowed:
        case SharedConfig.TRUST:
            return wanted
        case SharedConfig.OFF:
            return replace(operator, not_followed=(IS_OFF,))
    policy, loosening = tightened(wanted, operator)
    return replace(policy, not_followed=tuple(map(str, loosening)))


def levels(config: Config, operator: Policy, allowed: SharedConfig) -> Levels:
    """Return the same as `queue_engine.config.file.levels`, limited to the operator's choice."""
    found = file_policy.levels(config, operator)
    return tuple((patterns, limited(policy, operator, allowed)) for patterns, policy in found)


def _contains(value: object, asked: object) -> bool:
    """Return whether the effective value has everything wanted, so that only the operator's values were added."""
    return isinstance(value, Collection) and isinstance(asked, tuple | frozenset) and set(asked) <= set(value)
