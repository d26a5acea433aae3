"""`make mutants`: changes decisions in small ways, one at a time, and lists the changes that no fast test notices.

`[tool.mutmut]` in pyproject.toml lists the modules and the tests. Arguments choose modules: `decide store.order`.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

COPY = Path("mutants")
"""Where mutmut changes a copy of the source. Each run starts from an empty copy: a score never mixes two states."""

_UNNOTICED = (0, 5, 33)
"""mutmut's exit codes of a mutant that every test passes with, or that no test runs. Others are a failure or a hang."""


def outcomes(copy: Path) -> dict[str, dict[str, bool]]:
    """For each module of which mutants were tried: the mutants, and whether a test noticed each."""
    found: dict[str, dict[str, bool]] = {}
    for stored in sorted(copy.rglob("*.py.meta")):
        module = ".".join(stored.relative_to(copy).parts).removesuffix(".py.meta").removeprefix("queue_engine.")
        codes: dict[str, int | None] = json.loads(stored.read_text())["exit_code_by_key"]
        tried = {mutant: code not in _UNNOTICED for mutant, code in codes.items() if code is not None}
        if tried:
            found[module] = tried
    return found


def report(found: dict[str, dict[str, bool]]) -> str:
    """The mutants that survived, and the score of each module and of all."""
    survivors = [mutant for tried in found.values() for mutant, noticed in tried.items() if not noticed]
    rows = {module: tuple(tried.values()) for module, tried in found.items()}
    rows["all"] = tuple(noticed for tried in rows.values() for noticed in tried)
    scores = [
        f"{module:20} {sum(tried):5} of {len(tried):5} noticed {sum(tried) / max(len(tried), 1):7.1%}"
        for module, tried in rows.items()
    ]
    return "\n".join([*survivors, "", *scores, "", "`.venv/bin/mutmut show NAME` shows a survivor."])


def main(modules: list[str]) -> int:
    """Try the mutants of these modules, or of all; returns the exit code of mutmut."""
    shutil.rmtree(COPY, ignore_errors=True)
    patterns = [f"queue_engine.{module}.*" for module in modules]
    ran = subprocess.run([Path(sys.executable).with_name("mutmut"), "run", *patterns], check=False)
    print(report(outcomes(COPY)))
    return ran.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
