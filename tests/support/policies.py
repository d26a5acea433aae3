"""One policy for every base branch, where a test needs no configuration."""

from collections.abc import Collection, Sequence

from bot.gateway.people import Team
from queue_engine.config.model import Policy
from queue_engine.domain.facts import Permission
from queue_engine.domain.model import Repository
from queue_engine.domain.policy import Mode
from queue_engine.rules.eligibility import may_queue
from queue_engine.rules.policies import PolicyKey


class StaticPolicies:
    """Answers `queue_engine.rules.policies.Policies` with one policy for every base branch."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    async def of(self, repository: Repository, base_branch: str) -> Policy:
        """The one policy."""
        return self._policy

    def cached(self, repository: Repository, base_branch: str, generations: tuple[int, int]) -> Policy | None:
        """The one policy."""
        return self._policy

    async def recall(self, wanted: Sequence[PolicyKey]) -> Collection[PolicyKey]:
        """Nothing is to be read."""
        return [key for key in wanted if self.cached(*key) is not None]

    async def read_ahead(self, repositories: Sequence[Repository]) -> None:
        """Nothing is to be read."""

    async def mode(self, repository: Repository) -> Mode | None:
        """Its mode."""
        return self._policy.mode

    async def labels(self, repository: Repository) -> tuple[str, ...]:
        """Its trigger labels."""
        return self._policy.trigger_labels

    async def testing_labels(self, repository: Repository) -> tuple[str, ...]:
        """No branch has queue-only checks."""
        return ()

    async def admit_readers(self, repository: Repository, login: str) -> bool:
        """Whether the one policy lets them."""
        return may_queue(self._policy, login, Permission.READ) is None

    def remembers(self, repository_id: int, base_branch: str) -> bool:
        """No branch has anything of its own."""
        return False

    def forget(self, repository_id: int) -> None:
        """There is nothing to forget."""


class UncachedPolicies(StaticPolicies):
    """Has cached nothing, so that each queue needs a pass."""

    def cached(self, repository: Repository, base_branch: str, generations: tuple[int, int]) -> Policy | None:
        """The policy is to be read."""
        return None


async def unasked(repository: Repository, slug: str) -> Team:
    """Fail: a configuration that names no team reads none."""
    raise AssertionError(f"no test names the team {slug} of {repository.owner}")
