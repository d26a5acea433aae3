"""Forms that control a queue or move a pull request: the same engine functions as the API and the commands.

What costs something has a page first, which says what: who is delayed, which checks end, and the CI time that is lost.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import structlog
from aiohttp import web

from bot.api import routes
from bot.api.api_errors import ApiError
from bot.api.enqueueing import PullRequests
from bot.http.form import read_form
from bot.web.addresses import pull_url, queue_url
from bot.web.pages import wording
from bot.web.pages.queue import known_policy
from bot.web.pages.site import Pages, Site, get, post
from notifications.render.status import answer_text
from queue_engine.admission.enqueue import MergePending, NotQueued
from queue_engine.admission.rejection import RejectionError
from queue_engine.commands.commands import parse_priority, until
from queue_engine.config.model import Policy
from queue_engine.control import pauses
from queue_engine.control.pauses import Control
from queue_engine.domain.errors import StaleRead
from queue_engine.domain.model import Repository
from queue_engine.queries.control_effect import ControlKind, load_control_effect

_MOST_REASON = 500
_DONE: Mapping[str, str] = {
    "paused": "The queue is paused. It holds until someone resumes it.",
    "frozen": "The queue is frozen.",
    "resumed": "The queue is resumed. Other blockers, if there are any, are shown below.",
    "unchanged": "Nothing changed: the queue had this state already.",
    "priority": "The priority is set.",
    "dequeued": "The pull request is dequeued, and its label comes off.",
    "merging": "IMQ has asked GitHub to merge it already, so GitHub decides. If GitHub refuses, it leaves the queue.",
    "queued": "The pull request is queued.",
    "waits": "The pull request waits outside of its queue, and joins as soon as it is ready.",
    "gone": "Nothing changed: the pull request is not queued.",
    "unread": "GitHub does not show the revert yet. Click again in some seconds, so that IMQ can queue it.",
}
"""What the next page says after a form, by what was done."""

_KINDS: Mapping[str, ControlKind] = {"priority": "priority", "dequeue": "dequeue", "requeue": "requeue"}

_log = structlog.get_logger("imq.pages")

_Action = Callable[[], Awaitable[str]]


class Controls(Pages):
    """The forms of queues and pull requests."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._engine = site.engine
        self._pulls = PullRequests(site.engine)

    @post(f"{routes.BRANCH}/pause")
    async def pause(self, request: web.Request) -> web.Response:
        """Pause the queue until somebody resumes it."""
        return await self._control(request, partial(pauses.pause, reason=await _line(request, "reason")), "paused")

    @post(f"{routes.BRANCH}/freeze")
    async def freeze(self, request: web.Request) -> web.Response:
        """Freeze the queue until an instant, which is written as in `/freeze`."""
        repository, _ = await self._site.access.controllable(request)
        branch, end, reason = (
            routes.branch_of(request),
            await _line(request, "until"),
            await _line(request, "reason"),
        )
        policy = await self._engine.policies.of(repository, branch)
        try:
            ends, more = until(end, policy, self._engine.clock.now())
        except ValueError as fault:
            raise ApiError(400, f"The end of the freeze {fault}") from None
        if more:
            raise ApiError(400, "The end of the freeze has more than an instant; write the reason beside it")
        return await self._control(request, partial(pauses.freeze, until=ends, reason=reason), "frozen")

    @post(f"{routes.BRANCH}/resume")
    async def resume(self, request: web.Request) -> web.Response:
        """Lift all pauses, or the freeze if there is no pause, and test a red base again."""
        return await self._control(request, pauses.resume, "resumed")

    @post(f"{routes.BRANCH}/unfreeze")
    async def unfreeze(self, request: web.Request) -> web.Response:
        """End the freeze by hand, and nothing else."""
        return await self._control(request, pauses.unfreeze, "resumed")

    @get(f"{routes.PULL}/confirm")
    async def confirm(self, request: web.Request) -> web.Response:
        """Show what a request costs, with the button that makes it."""
        number = routes.number_of(request)
        kind = _KINDS.get(request.query.get("do", ""))
        points = parse_priority(request.query.get("priority", "")) if kind == "priority" else 0
        if kind is None or points is None:
            raise ApiError(400, "this page confirms a priority, a dequeue or a requeue")
        access = self._site.access
        repository = (await (access.controllable if kind == "priority" else access.writable)(request))[0]
        entry = await self._engine.store.read(lambda tx: tx.entries.find(repository.id, number))
        if entry is None:
            return self._site.see_other(request, pull_url(repository, number), _DONE["gone"])
        policy = await known_policy(self._engine, repository, entry.base_branch) or Policy()
        async with self._engine.store.reading() as tx:
            effect = await load_control_effect(tx, kind, entry, points, policy, self._engine.clock.now())
        return await self._site.render(
            request,
            "confirm.html",
            repository=repository,
            number=number,
            kind=kind,
            points=points,
            effect=effect,
            text=wording,
        )

    @post(f"{routes.PULL}/priority")
    async def prioritise(self, request: web.Request) -> web.Response:
        """Set the priority of a queued pull request."""
        points = parse_priority(await _line(request, "priority"))
        if points is None:
            raise ApiError(400, "A priority is high, normal, low, or a number from -1000 to 1000")
        repository, login = await self._site.access.controllable(request)

        async def prioritise() -> str:
            await self._pulls.prioritise(repository, routes.number_of(request), points, by=login)
            return "priority"

        return await self._move(request, repository, prioritise)

    @post(f"{routes.PULL}/dequeue")
    async def dequeue(self, request: web.Request) -> web.Response:
        """Dequeue a pull request."""
        repository, login = await self._site.access.writable(request)

        async def dequeue() -> str:
            done = await self._pulls.dequeue(repository, routes.number_of(request), by=login)
            return "dequeued" if done["left"] else "merging"

        return await self._move(request, repository, dequeue)

    @post(f"{routes.PULL}/requeue")
    async def requeue(self, request: web.Request) -> web.Response:
        """Queue the present head, at the end if it is queued; `head_sha` is the one that the page showed."""
        repository, login = await self._site.access.writable(request)
        head = await _line(request, "head_sha") or None

        async def requeue() -> str:
            found = await self._pulls.requeue(
                repository, routes.number_of(request), by=login, head_sha=head, joins=True
            )
            return "queued" if found.entry.is_ready else "waits"

        return await self._move(request, repository, requeue)

    @post(f"{routes.PULL}/revert")
    async def revert(self, request: web.Request) -> web.Response:
        """Open the revert of a landed pull request, and queue it as a hotfix."""
        return await self._revert(request, reland=False)

    @post(f"{routes.PULL}/reland")
    async def reland(self, request: web.Request) -> web.Response:
        """Open the change of a reverted pull request again."""
        return await self._revert(request, reland=True)

    async def _revert(self, request: web.Request, *, reland: bool) -> web.Response:
        repository, login = await self._site.access.writable(request)

        async def revert() -> str:
            try:
                done = await self._pulls.revert(repository, routes.number_of(request), by=login, reland=reland)
            except StaleRead:
                return "unread"
            return done.sentence

        return await self._move(request, repository, revert)

    async def _control(self, request: web.Request, control: Control, done: str) -> web.Response:
        branch = routes.branch_of(request)
        repository, login = await self._site.access.controllable(request)
        async with self._engine.store.reading() as tx:
            if await tx.queues.find(repository.id, branch) is None:
                raise routes.no_such_branch()
        result = await self._engine.write(lambda change: control(change, repository, branch, by=login))
        _log.info("queue_controlled", repository=repository.full_name, base_branch=branch, by=login, done=done)
        message = _DONE[done if result.changed else "unchanged"]
        return self._site.see_other(request, queue_url(repository, branch), message)

    async def _move(self, request: web.Request, repository: Repository, attempt: _Action) -> web.Response:
        number = routes.number_of(request)
        try:
            done = await attempt()
        except RejectionError as refused:
            raise _rejection(refused) from None
        except NotQueued:
            done = "gone"
        except MergePending:
            done = "merging"
        _log.info("pull_request_moved", repository=repository.full_name, number=number, done=done)
        return self._site.see_other(request, pull_url(repository, number), _DONE.get(done, done))


async def _line(request: web.Request, name: str) -> str:
    """Return one field of the form. Raises ApiError 400 for more than one line of text."""
    given = (await read_form(request)).get(name, "")
    if len(given) > _MOST_REASON or any(ord(c) < 32 or ord(c) == 127 for c in given):
        raise ApiError(400, f"Write the field {name} as one line of at most {_MOST_REASON} characters")
    return given.strip()


def _rejection(refused: RejectionError) -> ApiError:
    sentence = answer_text(refused.reason, label=refused.label).sentence.replace("`", "")
    detail = "" if refused.detail is None else f" ({refused.detail})"
    return ApiError(409, f"{sentence}{detail}", reason=refused.reason.value)
