"""Forms that control a queue or move a pull request: the same engine functions as the API and the commands.

What costs something has a page first, which says what: who is delayed, which checks end, and the CI time that is lost.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime

import structlog
from aiohttp import web

from bot.api import routes
from bot.api.api_errors import ApiError
from bot.http.form import read_form
from bot.web.addresses import pull_url, queue_url
from bot.web.pages import wording
from bot.web.pages.queue import known_policy
from bot.web.pages.site import Pages, Site, get, post
from notifications.render.status import answer_text
from queue_engine.admission import enqueue
from queue_engine.admission.case import load_case
from queue_engine.admission.enqueue import NotQueued, authorize_dequeue, dequeue_by_user
from queue_engine.admission.rejection import RejectionError
from queue_engine.commands.commands import parse_priority, until
from queue_engine.config.model import Policy
from queue_engine.control import pauses
from queue_engine.control.pauses import ControlResult
from queue_engine.domain.errors import StaleRecord
from queue_engine.domain.model import Entry, Repository
from queue_engine.effects.context import Change
from queue_engine.queries.control_effect import (
    ControlEffect,
    load_dequeue_effect,
    load_priority_effect,
    load_requeue_effect,
)
from queue_engine.store import Transaction

_MOST_REASON = 500
_MAX_ATTEMPTS = 5
"""How often a form is tried while other processes change its entry."""

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
}
"""What the next page says after a form, by what was done."""

_log = structlog.get_logger("imq.pages")

_Control = Callable[[Change, Repository, str, str], Awaitable[ControlResult]]
"""Controls the queue of this branch for the person with this login."""
_Action = Callable[[], Awaitable[str]]


class Controls(Pages):
    """The forms of queues and pull requests."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._engine = site.engine

    @post(f"{routes.BRANCH}/pause")
    async def pause(self, request: web.Request) -> web.Response:
        """Pause the queue until somebody resumes it."""
        reason = await _line(request, "reason")

        async def pause(change: Change, repository: Repository, branch: str, login: str) -> ControlResult:
            return await pauses.pause(change, repository, branch, by=login, reason=reason)

        return await self._control(request, pause, "paused")

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

        async def freeze(change: Change, repository: Repository, branch: str, login: str) -> ControlResult:
            return await pauses.freeze(change, repository, branch, by=login, until=ends, reason=reason)

        return await self._control(request, freeze, "frozen")

    @post(f"{routes.BRANCH}/resume")
    async def resume(self, request: web.Request) -> web.Response:
        """Lift all pauses, or the freeze if there is no pause, and test a red base again."""

        async def resume(change: Change, repository: Repository, branch: str, login: str) -> ControlResult:
            return await pauses.resume(change, repository, branch, by=login)

        return await self._control(request, resume, "resumed")

    @post(f"{routes.BRANCH}/unfreeze")
    async def unfreeze(self, request: web.Request) -> web.Response:
        """End the freeze by hand, and nothing else."""

        async def unfreeze(change: Change, repository: Repository, branch: str, login: str) -> ControlResult:
            return await pauses.unfreeze(change, repository, branch, by=login)

        return await self._control(request, unfreeze, "resumed")

    @get(f"{routes.PULL}/confirm")
    async def confirm(self, request: web.Request) -> web.Response:
        """Show what a request costs, with the button that makes it."""
        kind, number = request.query.get("do", ""), routes.number_of(request)
        points = parse_priority(request.query.get("priority", "")) if kind == "priority" else 0
        if kind not in {"priority", "dequeue", "requeue"} or points is None:
            raise ApiError(400, "this page confirms a priority, a dequeue or a requeue")
        access = self._site.access
        repository = (await (access.controllable if kind == "priority" else access.writable)(request))[0]
        async with self._engine.store.reading() as tx:
            entry = await tx.entries.find(repository.id, number)
        if entry is None:
            return self._site.see_other(request, pull_url(repository, number), _DONE["gone"])
        policy = await known_policy(self._engine, repository, entry.base_branch) or Policy()
        async with self._engine.store.reading() as tx:
            effect = await _effect(tx, kind, entry, points, policy, self._engine.clock.now())
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
        number = routes.number_of(request)
        case = await load_case(self._engine, repository, number)
        if case.entry is None:
            return self._site.see_other(request, pull_url(repository, number), _DONE["gone"])
        policy = (await case.with_policy(self._engine, case.entry.base_branch)).policy

        async def attempt() -> str:
            async with self._engine.change() as change:
                entry = await change.tx.entries.find(repository.id, number)
                if entry is None:
                    return "gone"
                await enqueue.prioritise(change, entry, points, policy, by=login)
                return "priority"

        return await self._move(request, repository, attempt)

    @post(f"{routes.PULL}/dequeue")
    async def dequeue(self, request: web.Request) -> web.Response:
        """Dequeue a pull request."""
        repository, login = await self._site.access.writable(request)
        number = routes.number_of(request)

        async def attempt() -> str:
            case = await load_case(self._engine, repository, number)
            permitted = await authorize_dequeue(self._engine, case, by=login)
            async with self._engine.change() as change:
                return "dequeued" if await dequeue_by_user(change, permitted) else "merging"

        return await self._move(request, repository, attempt)

    @post(f"{routes.PULL}/requeue")
    async def requeue(self, request: web.Request) -> web.Response:
        """Queue the present head, at the end if the pull request is queued; `head` is the one that the page showed."""
        repository, login = await self._site.access.writable(request)
        number, head = routes.number_of(request), await _line(request, "head") or None

        async def attempt() -> str:
            case = await load_case(self._engine, repository, number)
            call = enqueue.enqueue if case.entry is None else enqueue.requeue
            found = await call(self._engine, case, by=login, head_sha=head)
            return "queued" if found.entry.is_ready else "waits"

        return await self._move(request, repository, attempt)

    async def _control(self, request: web.Request, control: _Control, done: str) -> web.Response:
        branch = routes.branch_of(request)
        repository, login = await self._site.access.controllable(request)
        async with self._engine.store.reading() as tx:
            if await tx.queues.find(repository.id, branch) is None:
                raise routes.no_such_branch()
        async with self._engine.change() as change:
            result = await control(change, repository, branch, login)
        _log.info("queue_controlled", repository=repository.full_name, base_branch=branch, by=login, done=done)
        message = _DONE[done if result.changed else "unchanged"]
        return self._site.see_other(request, queue_url(repository, branch), message)

    async def _move(self, request: web.Request, repository: Repository, attempt: _Action) -> web.Response:
        number = routes.number_of(request)
        try:
            done = await _retry_on_conflict(attempt)
        except RejectionError as refused:
            raise _rejection(refused) from None
        except NotQueued:
            done = "gone"
        except enqueue.MergePending:
            done = "merging"
        _log.info("pull_request_moved", repository=repository.full_name, number=number, done=done)
        return self._site.see_other(request, pull_url(repository, number), _DONE[done])


async def _effect(
    tx: Transaction, kind: str, entry: Entry, points: int, policy: Policy, now: datetime
) -> ControlEffect:
    match kind:
        case "priority":
            return await load_priority_effect(tx, entry, points, policy, now)
        case "dequeue":
            return await load_dequeue_effect(tx, entry, policy, now)
        case _:
            return await load_requeue_effect(tx, entry, policy, now)


async def _retry_on_conflict(attempt: _Action) -> str:
    """Try again when another process changed the entry in the meantime."""
    for _ in range(_MAX_ATTEMPTS - 1):
        try:
            return await attempt()
        except StaleRecord:
            continue
    return await attempt()


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
