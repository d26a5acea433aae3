"""What payloads are read from."""

from dataclasses import dataclass

from sandbox.core.addresses import Addresses
from sandbox.core.behaviour import Behaviour
from sandbox.domain.accounts.accounts import Accounts
from sandbox.domain.checks.checks import Checks
from sandbox.domain.domain import Domain
from sandbox.domain.merging.mergeability import Mergeability
from sandbox.domain.pulls.pulls import Pulls
from sandbox.domain.pulls.stacks import Stacks
from sandbox.domain.rules.rules import Rules
from sandbox.state import State


@dataclass(frozen=True, slots=True)
class Source:
    """The records, and the parts of the domain that know what records do not say."""

    addresses: Addresses
    behaviour: Behaviour
    state: State
    accounts: Accounts
    checks: Checks
    mergeability: Mergeability
    pulls: Pulls
    rules: Rules
    stacks: Stacks

    @classmethod
    def of(cls, domain: Domain) -> "Source":
        """Those of a domain."""
        context = domain.context
        return cls(
            addresses=context.addresses,
            behaviour=context.behaviour,
            state=context.state,
            accounts=domain.accounts,
            checks=domain.checks,
            mergeability=domain.mergeability,
            pulls=domain.pulls,
            rules=domain.rules,
            stacks=domain.stacks,
        )
