import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_shared_core_may_import_no_other_module_of_the_engine() -> None:
    """The linter forbids what its contract names: a new module has to stand in it."""
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = [each for each in linter["contracts"] if each.get("source_modules") == ["queue_engine.core"]]
    engine = ROOT / "queue_engine"
    modules = {path.stem for path in engine.glob("*.py")} | {path.parent.name for path in engine.glob("*/__init__.py")}
    forbidden = {f"queue_engine.{name}" for name in modules - {"__init__", "core"}}
    assert forbidden == set(contract["forbidden_modules"])
