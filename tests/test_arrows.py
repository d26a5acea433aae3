"""The contracts of `make arrows` name every room, and look for circles at every depth."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


@pytest.mark.parametrize("package", ["queue_engine", "bot"])
def test_layers_of_a_package_name_each_of_its_rooms(package: str) -> None:
    """A new room has its layer before anything imports it."""
    (found,) = [each for each in CONTRACTS if each["type"] == "layers" and each.get("containers") == [package]]
    assert found["exhaustive"] is True
    named = {name.strip() for layer in found["layers"] for name in layer.split("|")}
    folder = ROOT / package
    rooms = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    assert named == rooms - {"__init__"}


def test_arrows_form_no_circle_in_any_package() -> None:
    """One contract looks into every package at every depth, at imports for type checking too."""
    (contract,) = [each for each in CONTRACTS if each["type"] == "acyclic_siblings"]
    assert contract["ancestors"] == ["bot", "notifications", "queue_engine", "github_emulator", "imq_demo"]
    assert not {"depth", "ignore_imports"} & contract.keys()


def imported(*folders: str) -> set[tuple[str, str]]:
    """Each file in these folders with each module that it imports from."""
    return {
        (path.relative_to(ROOT).as_posix(), module)
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        for module in re.findall(r"^ *from ([\w.]+) import", path.read_text(encoding="utf-8"), re.MULTILINE)
    }


def test_emulator_is_used_by_its_face() -> None:
    """IMQ's tests, its demo and its benchmarks import only what `github_emulator` exports, or its command."""
    found = imported("benchmarks", "demo", "docs", "tests")
    private = {each for each in found if each[1].startswith("github_emulator.")}
    assert {each for each in private if each[1] != "github_emulator.__main__"} == set()


def test_emulators_tests_need_nothing_of_imq() -> None:
    """The project can move to a repository of its own."""
    rooms = ("bot", "imq_demo", "notifications", "queue_engine", "tests")
    assert {each for each in imported("emulator") if each[1].split(".")[0] in rooms} == set()
