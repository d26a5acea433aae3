"""The registration in a real browser, without JavaScript."""

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.acceptance.template import ROOT
from tests.support.browsing import visiting
from tests.support.setup_in_browser import WINDOW, register
from tests.support.setup_process import running, world

pytestmark = pytest.mark.process


@pytest.mark.thorough
async def test_person_registers_and_installs_the_app_in_a_browser(tmp_path: Path, browser: str) -> None:
    """No script runs, no page loads anything from elsewhere, and the last page becomes green by itself."""
    steps: list[str] = []
    requested: list[str] = []
    refused: list[str] = []
    async with (
        world(tmp_path, f"sqlite:///{tmp_path / 'imq.db'}") as place,
        running(place.environment, "run") as imq,
        visiting(browser, scripts=False, viewport=WINDOW) as visit,
    ):
        page = visit.page
        page.on("request", lambda request: requested.append(request.url))
        page.on("console", lambda message: refused.append(message.text))

        async def step(name: str) -> None:
            steps.append(f"setup-{name}.png")

        await register(page, place, imq, step)
        app = next(app for app in place.github.state.apps.values() if app.name == "IMQ of acme")
        assert page.url.startswith(f"{place.url}/setup/installed?installation_id=")
        assert "administration" not in app.permissions
        assert [each.account.login for each in place.github.state.installations.values() if each.app is app] == [
            "maintainer"
        ]
        closed = await page.goto(f"{place.url}/setup")
        assert closed is not None
        assert closed.status == 404
    assert {urlsplit(url).hostname for url in requested} == {"127.0.0.1"}
    assert [text for text in refused if "404" not in text] == [], "the pages keep their own policy"
    pictures = {path.name for path in (ROOT / "docs" / "img").glob("setup-*.png")}
    assert pictures == set(steps), "`make pictures` renews them"


def test_commands_that_make_pictures_find_what_the_tests_find() -> None:
    """Their processes import the tests' world, also without pytest, which adds these paths."""
    commands = re.findall(r"^\t(.*) -m (tests\.support\.\w+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    drawing = {module for _, module in commands if "visiting(" in source_of(module)}
    assert drawing == {"tests.support.setup_pictures", "tests.support.screenshots"}
    assert {module for words, module in commands if "PYTHONPATH=emulator/tests" in words} == drawing


def source_of(module: str) -> str:
    return (ROOT / f"{module.replace('.', '/')}.py").read_text()
