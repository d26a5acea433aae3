"""Makes the pictures of the registration for the documents: `make pictures`."""

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.acceptance.template import ROOT
from tests.support.browsing import visiting
from tests.support.chromium import chromium, chromium_process
from tests.support.setup_in_browser import WINDOW, register
from tests.support.setup_process import running, world

FOLDER = ROOT / "docs" / "img"


async def main() -> None:
    """Register an App on a local GitHub, and write a picture of each page."""
    executable = chromium()
    if executable is None:
        sys.exit("There is no Chromium: install Debian's package chromium.")
    with (
        tempfile.TemporaryDirectory() as directory,
        chromium_process(executable, Path(directory, "chromium")) as browser,
    ):
        work = Path(directory)
        async with (
            world(work, f"sqlite:///{work / 'imq.db'}") as place,
            running(place.environment, "run") as imq,
            visiting(browser, scripts=False, viewport=WINDOW) as visit,
        ):

            async def picture(name: str) -> None:
                await visit.page.screenshot(path=FOLDER / f"setup-{name}.png", full_page=True)

            await register(visit.page, place, imq, picture)


if __name__ == "__main__":
    asyncio.run(main())
