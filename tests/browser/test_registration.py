"""The registration's last page, which is open to everybody."""

from pathlib import Path

from tests.acceptance.world import a_world
from tests.support.browsing import PHONE, findings, overflow, visiting


async def test_page_after_the_installation_is_accessible_and_fits_a_phone(tmp_path: Path, browser: str) -> None:
    """Axe finds nothing, the page is no wider than a phone, and asks nobody else for anything."""
    async with a_world(tmp_path, ci=False) as world, visiting(browser, viewport=PHONE) as visit:
        address = f"http://127.0.0.1:{world.runner.addresses[0][1]}/setup/installed"
        # An answer without content leaves the page as it is: a refresh would end what examines it.
        await visit.page.route(address, lambda route: route.fulfill(status=204))
        await visit.page.route(address, lambda route: route.continue_(), times=1)
        await visit.page.goto(address)
        # Without scripts, only a refresh shows that the first webhook has arrived.
        assert await findings(visit.page, allowed="meta-refresh") == []
        assert await overflow(visit.page) <= 0
        assert visit.faults() == []
        assert visit.hosts == {"127.0.0.1"}
