"""`/api/v1/repositories/{owner}/{repo}/queues` and `…/branches/{branch}/…`: queues are looked at and steered."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from aiohttp import web
from pydantic import BaseModel, Field

from bot.api import place
from bot.api.access import Access
from bot.api.errors import ApiError
from bot.api.idempotent import settle
from bot.api.instants import Instant
from bot.api.payload import Nothing, Payload, payload
from bot.api.routes import Caller, Route
from bot.api.standing import Halt, QueueAnswer, QueuesAnswer, QueueSummary, View
from queue_engine import steering
from queue_engine.commands.moments import FARTHEST
from queue_engine.core import trace
from queue_engine.engine import Change, Engine
from queue_engine.model import Repository
from queue_engine.policy import Policy
from queue_engine.standing import standstills
from queue_engine.steering import Steered

_PAUSE, _FREEZE = f"{place.BRANCH}/pause", f"{place.BRANCH}/freeze"

_LINE = r"^[^\x00-\x1f\x7f]*$"

Steer = Callable[[Change, Repository, str, str], Awaitable[Steered]]
"""Does it to the queue of this branch, for this person."""


class PauseCall(Payload):
    """Why a queue is to stand still; authors read it."""

    reason: str = Field("", max_length=500, pattern=_LINE)


class FreezeCall(PauseCall):
    """The same, and when it goes on by itself: an instant with its offset from UTC."""

    until: Instant


class SteeredAnswer(BaseModel):
    """What became of a queue: whether this call changed anything, what it stands still for now, and who stands in it.

    What is in `halts` after a queue was resumed ends by itself, or with another configuration.
    """

    repository: str
    queue: str
    changed: bool
    halts: tuple[Halt, ...]
    concerned: tuple[int, ...]


class BranchRoutes:
    """The routes, on one engine."""

    def __init__(self, engine: Engine, access: Access) -> None:
        self._engine = engine
        self._access = access

    def routes(self) -> Sequence[Route]:
        """What they are."""
        look = partial(Route, "GET", caller=Caller.READER, variables=place.VARIABLES)
        steer = partial(Route, caller=Caller.STEERER, answers={200: SteeredAnswer}, variables=place.VARIABLES)
        return [
            look(
                f"{place.REPOSITORY}/queues",
                self.list,
                "list_queues",
                "Lists the queues of a repository.",
                answers={200: QueuesAnswer},
            ),
            look(
                f"{place.BRANCH}/queue",
                self.show,
                "show_queue",
                "Shows a queue and who stands in it, the front first.",
                answers={200: QueueAnswer},
            ),
            steer("POST", _PAUSE, self.pause, "pause_queue", "Has a queue stand still.", body=PauseCall),
            steer("DELETE", _PAUSE, self.resume, "resume_queue", "Has it go on.", body=Nothing),
            steer(
                "PUT",
                _FREEZE,
                self.freeze,
                "freeze_queue",
                "Has a queue stand still until then.",
                body=FreezeCall,
                refusals=(422,),
            ),
            steer("DELETE", _FREEZE, self.thaw, "thaw_queue", "Ends a freeze made by hand.", body=Nothing),
        ]

    async def list(self, request: web.Request) -> web.Response:
        """200; 404: the repository is not to be seen."""
        engine, repository = self._engine, await self._access.readable(request)
        async with engine.store.reading() as tx:
            queues = await tx.queues.of_repository(repository.id)
        policies = [await engine.policies.of(repository, queue.base_branch) for queue in queues]
        async with engine.store.reading() as tx:
            now = engine.clock.now()
            views = [await View.of(tx, queue, policy, now) for queue, policy in zip(queues, policies, strict=True)]
        summaries = sorted((QueueSummary(**view.summary()) for view in views), key=lambda each: each.branch)
        answer = QueuesAnswer(repository=repository.full_name, queues=tuple(summaries))
        return web.json_response(answer.model_dump(mode="json"))

    async def show(self, request: web.Request) -> web.Response:
        """200; 404: the repository is not to be seen, or nobody was ever queued for this branch."""
        engine, repository = self._engine, await self._access.readable(request)
        branch = place.branch_of(request)
        async with engine.store.reading() as tx:
            queue = await tx.queues.find(repository.id, branch)
        if queue is None:
            raise place.no_such_branch()
        policy = await engine.policies.of(repository, branch)
        async with engine.store.reading() as tx:
            answer = (await View.of(tx, queue, policy, engine.clock.now())).whole()
        return web.json_response(answer.model_dump(mode="json"))

    async def pause(self, request: web.Request) -> web.Response:
        """200: it stands still until somebody resumes it; also if it did already."""
        reason = payload(request, PauseCall).reason

        async def pause(change: Change, repository: Repository, branch: str, login: str) -> Steered:
            return await steering.pause(change, repository, branch, by=login, reason=reason)

        return await self._steer(request, pause)

    async def resume(self, request: web.Request) -> web.Response:
        """200: no pause holds it, and a red base is tried anew; what else holds it is in the answer."""
        payload(request, Nothing)
        return await self._steer(request, _resume)

    async def freeze(self, request: web.Request) -> web.Response:
        """200: it is frozen until then, and longer if it is paused; 409 that has passed, 422 too far."""
        said = payload(request, FreezeCall)
        now = self._engine.clock.now()
        if said.until <= now:
            raise ApiError(409, "that instant has passed")
        if said.until - now > FARTHEST:
            sentence = f"a freeze by hand lasts at most {FARTHEST.days} days: write it into .github/imq.yml"
            raise ApiError(422, sentence)

        async def freeze(change: Change, repository: Repository, branch: str, login: str) -> Steered:
            return await steering.freeze(change, repository, branch, by=login, until=said.until, reason=said.reason)

        return await self._steer(request, freeze)

    async def thaw(self, request: web.Request) -> web.Response:
        """200: no freeze by hand holds it; any other pause stays."""
        payload(request, Nothing)
        return await self._steer(request, _thaw)

    async def _steer(self, request: web.Request, steer: Steer) -> web.Response:
        """Do it, and answer how the queue stands. Raises ApiError and GitHubError."""
        engine, branch = self._engine, place.branch_of(request)
        repository, login = await self._access.steerable(request)
        async with engine.store.reading() as tx:
            known = await tx.queues.find(repository.id, branch) is not None
        # A queue is made for what is steered: not for whatever name somebody sends.
        if not known and await engine.github.branch_tip(repository, branch) is None:
            raise place.no_such_branch()
        policy = await engine.policies.of(repository, branch)
        with trace.span("api steer"):
            async with engine.change() as change:
                done = await steer(change, repository, branch, login)
                answer = _answer(done, policy, change)
                return await settle(request, change.tx, answer.model_dump(mode="json"))


async def _resume(change: Change, repository: Repository, branch: str, login: str) -> Steered:
    return await steering.resume(change, repository, branch, by=login)


async def _thaw(change: Change, repository: Repository, branch: str, login: str) -> Steered:
    return await steering.thaw(change, repository, branch, by=login)


def _answer(done: Steered, policy: Policy, change: Change) -> SteeredAnswer:
    return SteeredAnswer(
        repository=done.queue.repository.full_name,
        queue=done.queue.base_branch,
        changed=done.changed,
        halts=tuple(map(Halt.of, standstills(done.queue, policy, change.now))),
        concerned=done.concerned,
    )
