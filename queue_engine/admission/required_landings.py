"""Read how far the pull requests are that have to land before another one, where its description names any.

Each open one costs a request, and so does each that those name, so that a cycle is found. A repository other than
one's own counts only if IMQ knows it, and if naming it reveals nothing: it is public, or one's own is private and both
the author and the person who queued may read the other. What is hidden reads like what does not exist.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from queue_engine.config.model import Policy
from queue_engine.domain.errors import Forbidden, NotFound, StaleRead
from queue_engine.domain.facts import LandingState, Permission, PullRequest, RequiredLanding
from queue_engine.domain.known_facts import PullRequestState, of_pull
from queue_engine.domain.model import Entry, Repository
from queue_engine.domain.reasons import Reason
from queue_engine.effects.context import Change, Engine
from queue_engine.rules.eligibility import Admit, Answer, NotReady
from queue_engine.rules.landing_order import (
    MOST,
    full_name,
    in_chain,
    lacked_beside_set,
    required_names,
    set_names,
    split_name,
)

_MOST_READ = 20
"""How many IMQ reads in search of a cycle: a longer one is not found, and the wait ends at its limit.

Those that the description itself names are read in any case: what is not read counts as hidden.
"""


_LANDED, _NOT_QUEUED, _NOT_READY = "has landed", "is not queued", "is not ready"
_NAMES_OTHERS = "does not name all of the set"
_UNREADY = frozenset({_NOT_QUEUED, _NOT_READY, _NAMES_OTHERS})


@dataclass(slots=True)
class _Search:
    """A search through what pull requests name, from one of them."""

    engine: Engine
    home: Repository
    pull: PullRequest
    people: frozenset[str]
    """The author, and who queued it."""
    read: dict[tuple[int, int], PullRequest | None] = field(default_factory=dict)
    visible: dict[str, Repository | None] = field(default_factory=dict)
    own: frozenset[str] = frozenset()
    """The full names of this one and of its set: a path that comes back to any of them is a cycle."""

    async def landing(self, name: str) -> RequiredLanding:
        """Return how far the pull request of this name is."""
        found = await self._find(name, self.home, named=True)
        if found is None:
            return RequiredLanding(LandingState.HIDDEN, name)
        _, pull = found
        if not pull.open:
            return RequiredLanding(LandingState.LANDED if pull.merged else LandingState.ENDED, name)
        # One of a set may land before another one of it.
        own = self.own if full_name(name, self.home) not in self.own else frozenset({_named(self.home, self.pull)})
        path = await self._path(name, self.home, (f"#{self.pull.number}",), own, set())
        return (
            RequiredLanding(LandingState.OPEN, name)
            if path is None
            else RequiredLanding(LandingState.CYCLE, " → ".join(path))
        )

    async def together(self, names: tuple[str, ...]) -> RequiredLanding:
        """Return for what a set waits: all ready, then those before, by `Depends-On:` or else by name."""
        own = _named(self.home, self.pull)
        members = {own: (self.home, self.pull)}
        for name in names:
            if (found := await self._find(name, self.home, named=True)) is None:
                return RequiredLanding(LandingState.HIDDEN, name)
            if not found[1].open and not found[1].merged:
                return RequiredLanding(LandingState.SET_ENDED, name)
            members[_named(*found)] = found
        for member in sorted(members.keys() & self.own - {own}):
            repository, pull = members[member]
            begin = (f"#{self.pull.number}", self._shown(repository, pull))
            for name in required_names(pull, repository)[:MOST] if pull.open else ():
                outside = full_name(name, repository) not in self.own
                if outside and (path := await self._path(name, repository, begin, self.own, set())) is not None:
                    return RequiredLanding(LandingState.CYCLE, " → ".join(path))
        order = _set_order(members)
        states = {name: await self._state(*members[name], own, members) for name in order if name != own}
        earlier = {states[name] for name in order[: order.index(own)]}
        if states.keys() and not {*states.values()} & _UNREADY and earlier <= {_LANDED}:
            return RequiredLanding(LandingState.SET_READY, " ".join(order))
        return RequiredLanding(LandingState.SET_OPEN, "; ".join(f"{name} {state}" for name, state in states.items()))

    async def _state(self, repository: Repository, pull: PullRequest, own: str, members: Mapping[str, object]) -> str:
        """Return how far another member of the set is, for people to read."""
        if pull.merged:
            return _LANDED
        named = {full_name(each, repository) for each in set_names(pull, repository)}
        entry = await self.engine.store.read(lambda tx: tx.entries.find(repository.id, pull.number))
        if not named.issuperset(members.keys() - {_named(repository, pull)}):
            return _NAMES_OTHERS
        if entry is None:
            return _NOT_QUEUED
        if entry.is_ready:
            return "is in its queue"
        return "is ready" if lacked_beside_set(entry, members) is None else _NOT_READY

    def _shown(self, repository: Repository, pull: PullRequest) -> str:
        return f"#{pull.number}" if repository.id == self.home.id else f"{repository.full_name}#{pull.number}"

    async def set_of(self, repository: Repository, pull: PullRequest, *, named: bool = False) -> tuple[str, ...]:
        """Return those with which a pull request lands in one set, as it names them, if they name it too."""
        own, found = _named(repository, pull), []
        for name in set_names(pull, repository)[:MOST]:
            other = await self._find(name, repository, named=named)
            if other is not None and own in {full_name(each, other[0]) for each in set_names(other[1], other[0])}:
                found.append(name)
        return tuple(found)

    async def _path(
        self, name: str, within: Repository, path: tuple[str, ...], own: frozenset[str], passed: set[str]
    ) -> tuple[str, ...] | None:
        """Return the path from the pull request over this one back to one of its `own`; None if there is none.

        It follows no pull request that it has `passed`: strangers who name each other make endless paths.
        """
        found = await self._find(name, within)
        if found is None:
            return None
        repository, pull = found
        shown, full = self._shown(repository, pull), _named(repository, pull)
        if full in own:
            return (*path, shown)
        if not pull.open or shown in passed:
            return None
        passed.add(shown)
        together = () if full in self.own else await self.set_of(repository, pull)
        for each in (*required_names(pull, repository)[:MOST], *together):
            if (further := await self._path(each, repository, (*path, shown), own, passed)) is not None:
                return further
        return None

    async def _find(
        self, name: str, within: Repository, *, named: bool = False
    ) -> tuple[Repository, PullRequest] | None:
        """Return the pull request of a name in a repository; None if it is hidden, none, or beyond the limit."""
        if (parts := split_name(name)) is None:
            return None
        repository = within if not parts[0] else await self._repository(parts[0])
        if repository is None:
            return None
        key = (repository.id, parts[1])
        if key == (self.home.id, self.pull.number):
            return repository, self.pull
        if key not in self.read:
            if not named and len(self.read) >= _MOST_READ:
                return None
            try:
                self.read[key] = await self.engine.github.pull_request(repository, parts[1])
            except NotFound:
                self.read[key] = None
        pull = self.read[key]
        return None if pull is None else (repository, pull)

    async def _repository(self, full_name: str) -> Repository | None:
        if full_name not in self.visible:
            self.visible[full_name] = await self._visible(*full_name.split("/"))
        return self.visible[full_name]

    async def _visible(self, owner: str, name: str) -> Repository | None:
        """Return the repository of this name, if naming it reveals nothing to anyone who may not read it."""
        github = self.engine.github
        known = await self.engine.store.read(lambda tx: tx.repositories.named(owner, name))
        if known is None or known.id == self.home.id:
            return known
        try:
            if (await github.repository(known)).public:
                return known
            if (await github.repository(self.home)).public:
                return None
            rights = [await github.permission(known, each) for each in sorted(self.people)]
        except (NotFound, Forbidden):
            return None
        return None if Permission.NONE in rights else known


async def landings_before(
    engine: Engine, repository: Repository, pull: PullRequest, by: str | None
) -> tuple[RequiredLanding, ...]:
    """Return the pull requests that its description names to land before it, as `by` may read. Raises GitHubError."""
    names, together = required_names(pull, repository), set_names(pull, repository)
    search = _Search(engine, repository, pull, frozenset({pull.author, by or pull.author}))
    with_it = await search.set_of(repository, pull, named=True)
    search.own = frozenset(full_name(each, repository) for each in (f"#{pull.number}", *with_it))
    found = [await search.landing(each) for each in names[:MOST]]
    found += [RequiredLanding(LandingState.HIDDEN, each) for each in names[MOST:]]
    return (*found, await search.together(together[:MOST])) if together else tuple(found)


def _named(repository: Repository, pull: PullRequest) -> str:
    return full_name(f"#{pull.number}", repository)


def _set_order(members: Mapping[str, tuple[Repository, PullRequest]]) -> list[str]:
    """Return the members of a set in the order in which they land."""
    graph = {
        name: [
            each
            for each in sorted({full_name(one, repository) for one in required_names(pull, repository)})
            if each in members
        ]
        for name, (repository, pull) in sorted(members.items())
    }
    with suppress(CycleError):
        return list(TopologicalSorter(graph).static_order())
    return sorted(members)


async def in_landing_order(
    change: Change, repository: Repository, queue_id: int, policy: Policy, answer: Entry | Answer
) -> Entry | Answer:
    """Let a pull request join a queue that has all that land before it, in trains. Raises StaleRead."""
    if not isinstance(answer, NotReady):
        return answer
    names = [each.detail or "" for each in answer.unmet if each.reason is Reason.DEPENDENCY_OPEN]
    for owner, number in filter(None, map(split_name, names)):
        other = await change.tx.repositories.named(*owner.split("/")) if owner else repository
        if other is not None and await _has_closed(change, other, number):
            raise StaleRead(f"{other.full_name}#{number} has closed since it was read")
    if not names or not policy.trains.enabled:
        return answer
    unmet = in_chain(answer.unmet, await change.tx.entries.of_queue(queue_id))
    return NotReady(unmet) if unmet else Admit()


async def _has_closed(change: Change, repository: Repository, number: int) -> bool:
    known = await change.tx.known.lately(repository.id, of_pull(number), change.now)
    states = [each.statement for each in known if isinstance(each.statement, PullRequestState)]
    return bool(states) and not max(states, key=lambda each: each.updated_at).open
