"""`make breaks`: breaks each promise once, in a copy of the source, and shows that tests of the landing gate fail.

Arguments choose promises: `P1 P4`.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
COPY = ROOT / "build" / "breaks"


class Break(NamedTuple):
    """One line of IMQ with a fault, and the test that has to fail for it."""

    module: str
    line: str
    fault: str
    test: str


BREAKS = {
    "P1": Break(
        "queue_engine/executor/landing.py",
        "    if entry.run.tested_tree == landed.tree or untested:",
        "    if True:",
        "tests/acceptance/test_promises.py::test_push_between_the_last_read_and_the_merge_pauses_the_queue_and_says_so",
    ),
    "P2": Break(
        "queue_engine/handlers/inbox.py",
        "            followed = [one for one, is_new in zip(received, new, strict=True) if is_new]",
        "            followed = [one for one, is_new in zip(received, new, strict=True) if not is_new]",
        "tests/unit/queue_engine/handlers/test_receiving.py",
    ),
    "P3": Break(
        "queue_engine/store/order.py",
        "    entries.c.rank,",
        "    entries.c.rank.desc(),",
        "tests/store/test_order.py",
    ),
    "P4": Break(
        "queue_engine/rules/consent.py",
        "    return _merged_tip(updated_from, comparison, policy) == comparison.merge_base",
        "    return True",
        "tests/acceptance/test_promises.py::test_commit_crafted_like_an_update_never_lands",
    ),
    "P5": Break(
        "queue_engine/planner/github_outage.py",
        "    if now - since >= _outage_limit(error, policy) * (_IN_DOUBT if in_doubt else 1):",
        "    if False:",
        "tests/unit/queue_engine/planner/test_github_outage.py",
    ),
    "P6": Break(
        "notifications/github_writer.py",
        "        if known is not None and (existing.announced or not must_act(notice)):",
        "        if False:",
        "tests/unit/notifications/test_outbox_dispatcher.py",
    ),
    "P7": Break(
        "bot/gateway/http/pacing.py",
        "        if wait > timedelta(0):",
        "        if False:",
        "tests/unit/bot/gateway/http/test_pacing.py",
    ),
}
"""What breaks each promise of ARCHITECTURE.md."""


def _exit_code(*tests: str) -> int:
    arguments = ["-q", "-x", "--gate", "landing", "--thorough", "-m", "not postgres", *tests]
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=COPY, capture_output=True).returncode


def _copy() -> None:
    shutil.rmtree(COPY, ignore_errors=True)
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (COPY / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, COPY / name)


def main(promises: list[str]) -> int:
    """Break these promises, or all; returns 1 if a test fails without a fault, or passes with one."""
    chosen = {promise: BREAKS[promise] for promise in promises or BREAKS}
    _copy()
    if _exit_code(*sorted({each.test for each in chosen.values()})) != 0:
        print("The tests fail without any fault.")
        return 1
    unnoticed = 0
    for promise, broken in chosen.items():
        module = COPY / broken.module
        text = module.read_text(encoding="utf-8")
        module.write_text(text.replace(broken.line, broken.fault), encoding="utf-8")
        noticed = _exit_code(broken.test) == 1
        module.write_text(text, encoding="utf-8")
        unnoticed += not noticed
        print(f"{promise}  {'noticed' if noticed else 'UNNOTICED':9}  {broken.module}  {broken.test}", flush=True)
    return int(unnoticed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
