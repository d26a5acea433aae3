"""IMQ installed from its package as people install it: by pip with locked libraries, by pipx, and by uvx."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot import __version__
from docs.generate import ROOT
from over_http.test_readme import run_commands
from tests.hosting.built_package import build
from tests.process.processes import a_theatre

pytestmark = pytest.mark.long

VERSION = f"imq, version {__version__}"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built package."""
    return build(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def installed(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An environment that was empty, with the locked libraries and the package; the folder of its commands."""
    commands = tmp_path_factory.mktemp("installed") / "bin"
    run(sys.executable, "-m", "venv", str(commands.parent))
    pip = (str(commands / "pip"), "install", "--no-deps")
    run(*pip, "--require-hashes", "--only-binary", ":all:", "--requirement", str(ROOT / "requirements.txt"))
    run(*pip, str(package))
    yield commands
    shutil.rmtree(commands.parent)


def tool(name: str) -> str:
    found = ROOT / ".venv-hosting" / "bin" / name
    return str(found) if found.exists() else pytest.skip(f"no {name}: run make hosting")


def surroundings() -> dict[str, str]:
    """Those of this process without any setting of IMQ, and without its places of modules."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("IMQ_", "PYTHON", "DATABASE"))}


def run(*command: str, code: int = 0, directory: Path | None = None, homes: dict[str, str] | None = None) -> str:
    """All that a command prints, in surroundings without any setting of IMQ."""
    pipe, together = subprocess.PIPE, subprocess.STDOUT
    done = subprocess.run(
        command, stdout=pipe, stderr=together, text=True, check=False, cwd=directory, env=surroundings() | (homes or {})
    )
    assert done.returncode == code, (command, done.stdout[-3000:])
    return done.stdout


def test_install_by_pip_is_consistent_and_says_what_is_missing(installed: Path, tmp_path: Path) -> None:
    """The locked libraries are all that IMQ needs; without settings, and without the demo, it says so."""
    imq = str(installed / "imq")
    assert run(imq, "--version", directory=tmp_path).strip() == VERSION
    assert "No broken requirements" in run(str(installed / "pip"), "check", directory=tmp_path)
    refused = run(imq, "run", code=2, directory=tmp_path)
    assert "IMQ_GITHUB_APP_ID is missing" in refused
    assert "Traceback" not in refused
    assert "pip install 'imq[demo]'" in run(imq, "demo", code=2, directory=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.process
async def test_install_by_pip_lands_a_pull_request(installed: Path, tmp_path: Path) -> None:
    """Migrations, queries and texts are found where they are installed, and not in the sources."""
    async with a_theatre(f"sqlite:///{tmp_path / 'imq.db'}", tmp_path) as theatre:
        theatre.python = (str(installed / "python"), "-P")
        process = await asyncio.create_subprocess_exec(
            *theatre.python, "-c", "import bot; print(bot.__file__)", cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        printed, _ = await process.communicate()
        assert printed.decode().startswith(str(installed.parent))
        await theatre.start()
        files = {"b.md": "b\n"}
        pull = theatre.repository.open_pull_request("A change", head="change", files=files, by="mona")
        pull.label("merge-queue", by="mona")
        await theatre.until(lambda: pull.merged)
        assert await theatre.stop() == 0


def test_install_by_pipx_gives_the_command(package: Path, tmp_path: Path) -> None:
    """It takes the newest libraries that pyproject.toml allows."""
    homes = {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path / "bin")}
    run(tool("pipx"), "install", "--python", sys.executable, str(package), homes=homes)
    assert run(str(tmp_path / "bin" / "imq"), "--version").strip() == VERSION
    assert "IMQ_GITHUB_APP_ID is missing" in run(str(tmp_path / "bin" / "imq"), "run", code=2, directory=tmp_path)


def test_uvx_runs_the_command_without_installing_it(package: Path, tmp_path: Path) -> None:
    """The first thing that a curious person types."""
    uvx = (tool("uvx"), "--no-config", "--python", sys.executable, "--from", str(package), "imq")
    homes = {"UV_CACHE_DIR": str(tmp_path / "cache"), "UV_PYTHON_DOWNLOADS": "never"}
    assert VERSION in run(*uvx, "--version", homes=homes)
    assert "IMQ_GITHUB_APP_ID is missing" in run(*uvx, "run", code=2, directory=tmp_path, homes=homes)


def installed_in(directory: Path, *wanted: str) -> Path:
    """A new environment with what `pip install` makes of these words; the folder of its commands."""
    run(sys.executable, "-m", "venv", str(directory))
    run(str(directory / "bin" / "pip"), "install", *wanted)
    assert "No broken requirements" in run(str(directory / "bin" / "pip"), "check")
    return directory / "bin"


async def test_emulator_is_installed_alone_and_its_readme_runs(tmp_path: Path) -> None:
    """Its package needs nothing of IMQ's."""
    commands = installed_in(tmp_path / "environment", str(build(tmp_path / "source", "emulator")))
    assert "No module named 'bot'" in run(str(commands / "python"), "-c", "import bot", code=1, directory=tmp_path)
    await run_commands(commands, tmp_path, surroundings())


def test_extra_demo_brings_demo_and_emulator(package: Path, tmp_path: Path) -> None:
    """`pip install 'imq[demo]'`, with the three packages of this clone beside the index; then the demo as it is."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    for built in (package, build(tmp_path / "one", "demo"), build(tmp_path / "two", "emulator")):
        shutil.copy(built, shelf)
    commands = installed_in(tmp_path / "environment", "--find-links", str(shelf), "imq[demo]")
    assert "Verdict: main was green at every commit" in run(str(commands / "imq"), "demo", "--speed", "20")
