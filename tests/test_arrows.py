"""The contracts of `make arrows` name every room, and leave each room those arrows that the table below allows."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]

CROWDS = ["queue_engine", "queue_engine.core", "queue_engine.store", "bot", "bot.gateway", "notifications", "sandbox"]
"""The packages whose parts are layers. No circle is in any other either."""

MAY_IMPORT = {
    "core": "",
    "domain": "core",
    "config": "domain",
    "rules": "config domain core",
    "planner": "rules config domain core",
    "workflows": "config domain",
    "store": "domain core",
    "known": "store domain core",
    "queries": "store rules domain core",
    "effects": "queries store rules domain core",
    "admission": "effects known queries store rules domain core",
    "control": "effects known queries store rules domain core",
    "executor": "planner effects known store rules workflows domain core",
    "commands": "admission control effects queries store rules config domain core",
    "shadow": "executor admission planner effects store rules domain core",
    "handlers": "shadow commands executor admission control effects known store rules domain core",
}


def layers(container: str) -> list[set[str]]:
    """The layers of a package, top first; each a set of names beside each other."""
    (found,) = [each for each in CONTRACTS if each["type"] == "layers" and each.get("containers") == [container]]
    assert found["exhaustive"] is True
    return [{name.strip() for name in layer.split("|")} for layer in found["layers"]]


def parts(package: str) -> set[str]:
    """The modules and packages that stand directly in a package."""
    folder = ROOT.joinpath(*package.split("."))
    found = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    return found - {"__init__"}


def forbidden(room: str) -> Iterator[str]:
    """What contracts forbid a room of the engine beyond its layer."""
    for each in CONTRACTS:
        if each["type"] == "forbidden" and f"queue_engine.{room}" in each["source_modules"]:
            yield from (name.removeprefix("queue_engine.") for name in each["forbidden_modules"])


@pytest.mark.parametrize("package", CROWDS)
def test_layers_of_a_package_name_each_of_its_parts(package: str) -> None:
    """A new room has its layer before anything imports it."""
    assert set().union(*layers(package)) == parts(package)


def test_rooms_of_the_engine_may_import_what_the_table_says() -> None:
    """The layers and the forbidden imports together leave exactly the arrows of the table."""
    order = layers("queue_engine")
    left: Mapping[str, set[str]] = {
        room: set().union(*order[below + 1 :]) - set(forbidden(room))
        for below, beside in enumerate(order)
        for room in beside - {"migrations"}
    }
    assert left == {room: set(allowed.split()) for room, allowed in MAY_IMPORT.items()}


def floor(room: str) -> int:
    """How many rooms a chain of imports from this room passes at most, itself included."""
    return 1 + max(map(floor, MAY_IMPORT[room].split()), default=0)


def test_rooms_of_the_engine_stand_on_ten_floors_at_most() -> None:
    """A contributor meets few rooms below the one to be changed."""
    assert max(map(floor, MAY_IMPORT)) <= 10


def test_arrows_form_no_circle_in_any_package() -> None:
    """One contract looks into every package at every depth, at imports for type checking too."""
    (contract,) = [each for each in CONTRACTS if each["type"] == "acyclic_siblings"]
    assert contract["ancestors"] == ["bot", "notifications", "queue_engine", "sandbox"]
    assert not {"depth", "ignore_imports"} & contract.keys()
