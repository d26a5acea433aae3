"""What payloads are read from."""

from dataclasses import dataclass

from github_emulator.core.addresses import Addresses
from github_emulator.core.behaviour import Behaviour
from github_emulator.domain.accounts.accounts import Accounts
from github_emulator.domain.checks.checks import Checks
from github_emulator.domain.domain import Domain
from github_emulator.domain.merging.mergeability import Mergeability
from github_emulator.domain.pulls.pulls import Pulls
from github_emulator.domain.pulls.stacks import Stacks
from github_emulator.domain.rules.rules import Rules
from github_emulator.state import State


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
