"""Load the stored facts of a pull request, once for each event about it.

Handlers of webhooks, commands and API calls, and the reconciler, load a case and pass it down. Every transaction
compares the entry with that of the case by its version. A case is loaded again only after such a comparison failed.
"""

from dataclasses import dataclass, replace

from queue_engine.config.model import Policy
from queue_engine.domain.facts import PullRequest
from queue_engine.domain.model import Entry, Repository
from queue_engine.effects.context import Engine


@dataclass(frozen=True, slots=True)
class Case:
    """A pull request that an event concerns, with its stored entry; None if it is not queued."""

    repository: Repository
    number: int
    entry: Entry | None = None
    delivery: str | None = None
    """The webhook, comment or API call."""
    pull: PullRequest | None = None
    """The pull request with its effective labels, once it was read for this event."""
    governed: tuple[str, Policy] | None = None
    """The base branch whose policy was loaded, and that policy."""

    @property
    def policy(self) -> Policy:
        """The policy that `with_policy` loaded."""
        assert self.governed is not None
        return self.governed[1]

    async def with_policy(self, engine: Engine, base_branch: str) -> "Case":
        """Return the case with the policy of this branch, which is loaded once. Raises GitHubError.

        A changed base branch has another policy.
        """
        if self.governed is not None and self.governed[0] == base_branch:
            return self
        return replace(self, governed=(base_branch, await engine.policies.of(self.repository, base_branch)))

    async def reload(self, engine: Engine) -> "Case":
        """Return the case with its present entry, after the entry changed."""
        return replace(self, entry=(await load_case(engine, self.repository, self.number)).entry)


async def load_case(engine: Engine, repository: Repository, number: int, *, delivery: str | None = None) -> Case:
    """Load the entry of a pull request, for this event."""
    async with engine.store.reading() as tx:
        entry = await tx.entries.find(repository.id, number)
    return Case(repository, number, entry, delivery)
