"""The walk through the code in CONTRIBUTING.md: IMQ enters the functions that it names, in their order."""

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from docs.generate import ROOT
from tests.acceptance.world import CI_TIME, LABEL, a_world

MOST_FUNCTIONS = 12
"""More than these a newcomer does not keep in mind."""


def functions_of_the_walk() -> dict[str, CodeType]:
    """The functions that the section names, with the code that the linked file defines for each."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = page.partition("\n## One label through the code\n")[2].partition("\n## ")[0]
    named = re.findall(r"^\| \d+ \| \[`([\w.]+)`\]\(([\w/]+)\.py\)", section, re.MULTILINE)
    return {name: _code_of(name, module.replace("/", ".")) for name, module in named}


def _code_of(name: str, module: str) -> CodeType:
    found: Any = reduce(getattr, name.split("."), importlib.import_module(module))
    found = getattr(found, "__wrapped__", found)
    assert found.__module__ == module, f"{module} only imports {name}: link the file that defines it"
    code: CodeType = found.__code__
    return code


@contextmanager
def entries_traced(code: Callable[[CodeType], None]) -> Iterator[None]:
    """Report each call of a Python function in this thread."""

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            code(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(before)


async def test_label_of_a_green_pull_request_enters_the_functions_of_the_walk_in_their_order(tmp_path: Path) -> None:
    """A newcomer who sets a breakpoint in each function stops at one after the other, up to the landing."""
    walk = functions_of_the_walk()
    assert 0 < len(walk) <= MOST_FUNCTIONS
    names = {code: name for name, code in walk.items()}
    entered: dict[str, None] = {}

    def enter(code: CodeType) -> None:
        if code in names:
            entered.setdefault(names[code])

    async with a_world(tmp_path) as world:
        pull = world.open("add")
        await world.pass_time(CI_TIME * 2)
        with entries_traced(enter):
            pull.label(LABEL, by="mona")
            await world.until(lambda: pull.merged)
            await world.settle()
    assert list(entered) == list(walk)
