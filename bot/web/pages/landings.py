"""`GET /repositories/{owner}/{repo}/landings`: what landed, what was tested, and by whose consent."""

from collections.abc import Sequence

from aiohttp import web

from bot.api import routes
from bot.api.landing_routes import LandingQuery, place_of
from bot.api.payload import cursor_after, query
from bot.web.addresses import landings_url
from bot.web.pages.site import Site


class LandingsPage:
    """The list of a repository's landings."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> Sequence[web.RouteDef]:
        """Return the route of the page."""
        return [web.get(f"{routes.REPOSITORY}/landings", self._show)]

    async def _show(self, request: web.Request) -> web.Response:
        repository = await self._site.access.readable(request)
        listing = query(request, LandingQuery)
        after = None if listing.cursor is None else place_of(listing.cursor)
        async with self._site.engine.store.reading() as tx:
            found = await tx.landings.latest(repository.id, listing.limit + 1, base_branch=listing.branch, after=after)
        shown, more = found[: listing.limit], len(found) > listing.limit
        return await self._site.render(
            request,
            "landings.html",
            repository=repository,
            landings=shown,
            address=landings_url(repository),
            older=cursor_after(shown[-1].at, str(shown[-1].id)) if more else None,
            branch=listing.branch,
        )
