"""The page of a pull request: what it waits for, its tests and its history; and the records of landings."""

from collections.abc import Sequence
from datetime import UTC, datetime

from aiohttp import web

from bot.api import routes
from bot.api.api_errors import ApiError
from bot.api.landing_routes import LandingListing
from bot.api.payload import query
from bot.web.addresses import landings_url
from bot.web.login.session_cookies import viewer
from bot.web.pages import wording
from bot.web.pages.queue import known_policy
from bot.web.pages.site import Pages, get
from queue_engine.admission.enqueue import CONTROL_ROLES
from queue_engine.admission.reverts import revert_of
from queue_engine.config.model import Policy
from queue_engine.domain.facts import Permission
from queue_engine.domain.landing_record import LandingRecord
from queue_engine.queries.check_view import check_views, load_usual_times
from queue_engine.queries.pull_request_history import load_history, load_status_at
from queue_engine.queries.pull_request_status import PullRequestStatus, load_pull_request
from queue_engine.queries.queue_states import blocker_states
from queue_engine.rules.eligibility import may_queue
from queue_engine.store import Transaction


class PullRequestPage(Pages):
    @get(routes.PULL)
    async def _show(self, request: web.Request) -> web.Response:
        site, engine, now = self._site, self._site.engine, self._site.engine.clock.now()
        repository, number = await site.access.readable(request), routes.number_of(request)
        at, before = _instant(request, now), _before(request)
        queue = await engine.store.read(lambda tx: tx.queues.of_pull_request(repository.id, number))
        policy = None if queue is None else await known_policy(engine, repository, queue.base_branch)
        role = await site.access.role(request, repository)
        async with engine.store.reading() as tx:
            policies = {} if queue is None or policy is None else {queue.base_branch: policy}
            found = await load_pull_request(tx, repository.id, number, policies, now)
            history = await load_history(tx, repository.id, number, before=before)
            past = None if at is None else await load_status_at(tx, repository.id, number, at)
            title = await _title(tx, repository.id, found)
            landings = await tx.landings.of_pull_request(repository.id, number)
            revert = await revert_of(tx, repository.id, number)
            reverted = revert is not None and bool(await tx.landings.of_pull_request(repository.id, revert))
            blocked = None
            if queue is not None and found.entry is not None and found.entry.blockers:
                (blocked,) = blocker_states(queue, found.entry.blockers[:1])
            usual = {} if found.entry is None else await load_usual_times(tx, repository.id, found.base_branch or "")
        if queue is None and not history.events and found.rejected is None:
            raise ApiError(404, "IMQ knows no such pull request")
        login, author = viewer(request).login, _author(found, landings)
        return await site.render(
            request,
            "pull_request.html",
            repository=repository,
            number=number,
            title=title,
            found=found,
            checks=() if found.entry is None else check_views(found.entry.entry, usual, now),
            history=history,
            landings=landings,
            before=before,
            blocked=blocked,
            past=past,
            branch=found.base_branch or (history.events[0].base_branch if history.events else ""),
            policy=policy,
            controls=role in CONTROL_ROLES,
            may_leave=_may_act(login, role, author, policy),
            may_revert=bool(landings) and not reverted and _may_act(login, role, None, policy),
            may_reland=revert is not None and _may_act(login, role, author, policy),
            revert=revert,
            text=wording,
            live=None if at or before else f"/events?repository={repository.full_name}&number={number}",
        )


async def _title(tx: Transaction, repository_id: int, found: PullRequestStatus) -> str | None:
    """Return the title: the present one of an entry, else the one that the pull request left with; None if unknown."""
    if (entry := await tx.entries.find(repository_id, found.number)) is not None:
        return entry.title
    departures = await tx.departures.of_pull_request(repository_id, found.number)
    return departures[-1].title if departures else None


def _author(found: PullRequestStatus, landings: Sequence[LandingRecord]) -> str | None:
    """Return the author of a queued or landed pull request."""
    if found.entry is not None:
        return found.entry.entry.author
    return landings[-1].record["members"][-1]["author"] if landings else None


def _may_act(login: str | None, role: Permission, author: str | None, policy: Policy | None) -> bool:
    """Whether the engine lets this person do what people who may queue may do, and this author."""
    if login is None or role is Permission.NONE:
        return False
    is_author = author is not None and author.casefold() == login.casefold()
    return is_author or may_queue(policy or Policy(), login, role) is None


def _instant(request: web.Request, now: datetime) -> datetime | None:
    """Return the past instant that the address names. Raises ApiError 400."""
    asked = request.query.get("at", "").strip()
    if not asked:
        return None
    try:
        found = datetime.fromisoformat(asked.replace(" ", "+") if asked.count(" ") == 1 and "T" in asked else asked)
        at = (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ApiError(400, "write the instant as 2026-12-24T08:00, in UTC, or with its offset") from None
    if at > now:
        raise ApiError(400, "the instant is in the future: give a past one, in UTC, or with its offset")
    return at


def _before(request: web.Request) -> int | None:
    asked = request.query.get("before", "")
    return int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 19 else None


class LandingsPage(Pages):
    """The list of a repository's landings."""

    @get(f"{routes.REPOSITORY}/landings")
    async def _show(self, request: web.Request) -> web.Response:
        repository = await self._site.access.readable(request)
        listing = query(request, LandingListing)
        async with self._site.engine.store.reading() as tx:
            shown, older = listing.page(await listing.load(tx, repository))
        return await self._site.render(
            request,
            "landings.html",
            repository=repository,
            landings=shown,
            address=landings_url(repository),
            older=older,
            branch=listing.branch,
        )
