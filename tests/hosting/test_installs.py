"""IMQ installed as people install it, from a package index in a folder: by pip with locked libraries, pipx and uvx."""

import asyncio
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot import __version__
from docs.generate import ROOT
from over_http.test_readme import run_commands
from tests.process.processes import a_theatre
from tests.support.release_files import PROJECTS, build_package

pytestmark = pytest.mark.long

VERSION = f"imq, version {__version__}"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of an index, as the packaging user guide specifies the simple repository API, with IMQ's projects."""
    folder = tmp_path_factory.mktemp("index")
    for project, name in PROJECTS.items():
        page = folder / name.replace("_", "-")
        page.mkdir()
        built = [build_package(ROOT, project, kind, page) for kind in ("wheel", "sdist")]
        sums = {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in built}
        links = (f'<a href="{file}#sha256={digest}">{file}</a><br>' for file, digest in sums.items())
        (page / "index.html").write_text(f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>")
    return folder.as_uri()


@pytest.fixture(scope="module")
def installed(index: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An environment that was empty, with the locked libraries and the package; the folder of its commands."""
    commands = tmp_path_factory.mktemp("installed") / "bin"
    run(sys.executable, "-m", "venv", str(commands.parent))
    pip = (str(commands / "pip"), "install", "--no-deps")
    run(*pip, "--require-hashes", "--only-binary", ":all:", "--requirement", str(ROOT / "requirements.txt"))
    run(*pip, "-i", index, f"imq=={__version__}")
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


def test_install_by_pipx_gives_the_command(index: str, tmp_path: Path) -> None:
    """It takes the newest libraries that pyproject.toml allows."""
    homes = {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path / "bin"), **beside(index)}
    run(tool("pipx"), "install", "--python", sys.executable, f"imq=={__version__}", homes=homes)
    assert run(str(tmp_path / "bin" / "imq"), "--version").strip() == VERSION
    assert "IMQ_GITHUB_APP_ID is missing" in run(str(tmp_path / "bin" / "imq"), "run", code=2, directory=tmp_path)


def test_uvx_runs_the_command_without_installing_it(index: str, tmp_path: Path) -> None:
    """The first thing that a curious person types."""
    uvx = (tool("uvx"), "--no-config", "--python", sys.executable, "--index", index, f"imq@{__version__}")
    homes = {"UV_CACHE_DIR": str(tmp_path / "cache"), "UV_PYTHON_DOWNLOADS": "never"}
    assert VERSION in run(*uvx, "--version", homes=homes)
    assert "IMQ_GITHUB_APP_ID is missing" in run(*uvx, "run", code=2, directory=tmp_path, homes=homes)


def beside(index: str) -> dict[str, str]:
    """What has pip ask this index, too, and uv, by which pipx installs where it has uv beside it."""
    return {"PIP_EXTRA_INDEX_URL": index, "UV_INDEX": index}


def installed_in(directory: Path, wanted: str, index: str) -> Path:
    """A new environment with what `pip install` makes of these words; the folder of its commands."""
    run(sys.executable, "-m", "venv", str(directory))
    run(str(directory / "bin" / "pip"), "install", wanted, homes=beside(index))
    assert "No broken requirements" in run(str(directory / "bin" / "pip"), "check")
    return directory / "bin"


async def test_emulator_is_installed_alone_and_its_readme_runs(index: str, tmp_path: Path) -> None:
    """Its package needs nothing of IMQ's."""
    commands = installed_in(tmp_path / "environment", "github-emulator", index)
    assert "No module named 'bot'" in run(str(commands / "python"), "-c", "import bot", code=1, directory=tmp_path)
    await run_commands(commands, tmp_path, surroundings())


def test_extra_demo_brings_demo_and_emulator(index: str, tmp_path: Path) -> None:
    """`pip install 'imq[demo]'` takes the three packages of this clone; then the demo as it is."""
    commands = installed_in(tmp_path / "environment", f"imq[demo]=={__version__}", index)
    assert "Verdict: main was green at every commit" in run(str(commands / "imq"), "demo", "--speed", "20")


def test_package_from_sources_is_the_published_one(index: str, tmp_path: Path) -> None:
    """A build of the source archive has what the published package has, the manifest of the App among it."""
    name, downloads = f"imq=={__version__}", tmp_path / "downloads"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    run(
        *pip,
        "download",
        "--no-deps",
        "--no-build-isolation",
        "--no-binary",
        ":all:",
        "-d",
        str(downloads),
        "-i",
        index,
        name,
    )
    run(*pip, "download", "--no-deps", "-d", str(downloads), "-i", index, name)
    (archive,), (published,) = downloads.glob("*.tar.gz"), downloads.glob("*.whl")
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(archive))
    contents = [
        {name: package.read(name) for name in package.namelist() if not name.endswith("RECORD")}
        for package in map(zipfile.ZipFile, (published, next(tmp_path.glob("*.whl"))))
    ]
    assert contents[0] == contents[1]
