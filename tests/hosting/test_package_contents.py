"""What the packages have in them: all that a process reads, nothing of the tests, and each project its own alone."""

import re
import zipfile
from pathlib import Path

import pytest

from bot import __version__
from docs.generate import ROOT
from tests.support.release_files import FOLDERS, PROJECTS, build_package

DATA = ("bot/registration/app.yml", "queue_engine/migrations/env.py", "bot/py.typed")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The built package."""
    return zipfile.ZipFile(build_package(ROOT, "", "wheel", tmp_path_factory.mktemp("source")))


@pytest.mark.parametrize(
    ("project", "distribution", "command"),
    [
        ("demo", "imq_demo", None),
        ("emulator", "github_emulator", "github-emulator = github_emulator.__main__:main"),
    ],
)
def test_package_of_another_project_has_its_modules_alone(
    tmp_path: Path, project: str, distribution: str, command: str | None
) -> None:
    """Neither brings IMQ along, nor tests; the emulator's has its command and its GraphQL schema."""
    with zipfile.ZipFile(build_package(ROOT, project, "wheel", tmp_path)) as package:
        names = [name for name in package.namelist() if ".dist-info/" not in name]
        folder = ROOT / project
        sources = [path for path in (folder / PROJECTS[project]).rglob("*") if path.is_file() and path.suffix != ".pyc"]
        assert sorted(names) == sorted(path.relative_to(folder).as_posix() for path in sources)
        info = next(name.split("/")[0] for name in package.namelist() if ".dist-info/" in name)
        assert info.startswith(f"{distribution}-")
        assert f"{info}/licenses/LICENSE" in package.namelist()
        metadata = package.read(f"{info}/METADATA").decode()
        assert (f"Requires-Dist: imq=={__version__}" in metadata) == (project == "demo")
        if command is not None:
            assert command in package.read(f"{info}/entry_points.txt").decode()


def test_package_has_every_module_and_what_they_read(package: zipfile.ZipFile) -> None:
    """A migration, a query or the manifest that is not in the package fails only where it is installed."""
    names = set(package.namelist())
    sources = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    read = {".py", ".graphql", ".mako", ".ini", ".yml", ".typed", ".html", ".css", ".js", ".svg", ".md"}
    expected = {path.relative_to(ROOT).as_posix() for path in sources if path.suffix in read or path.name == "py.typed"}
    assert len(expected) > 300
    assert expected <= names
    assert set(DATA) <= names
    assert package.read("bot/registration/app.yml") == (ROOT / "app.yml").read_bytes()
    other = {path.suffix for path in sources} - read - {".pyc", ""}
    assert other == set(), "a new kind of file: name it in pyproject.toml's package-data"


def test_package_has_no_tests_and_no_tools(package: zipfile.ZipFile) -> None:
    """What people install is the product, without emulator and demo; no package takes a name such as `tests`."""
    tops = {name.split("/")[0] for name in package.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"bot", "notifications", "queue_engine"}
    assert not [name for name in package.namelist() if re.search(r"(^|/)test", name)]


def test_package_has_the_command_and_the_licence(package: zipfile.ZipFile) -> None:
    """`pipx install` finds `imq`, and the page of the package says under which licence."""
    info = f"imq-{__version__}.dist-info"
    assert "imq = bot.cli.main:main" in package.read(f"{info}/entry_points.txt").decode()
    metadata = package.read(f"{info}/METADATA").decode()
    assert "License-Expression: Apache-2.0" in metadata
    assert 'Requires-Dist: imq-demo; extra == "demo"' in metadata
    assert f"{info}/licenses/LICENSE" in package.namelist()
