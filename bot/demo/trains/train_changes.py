"""The repository of the comparison, and its pull requests: a tenth passes alone and fails on the present base. Pure."""

import random
from collections.abc import Mapping
from dataclasses import dataclass

NAME = "tea-house/recipes"
WORKFLOW = ".github/workflows/ci.yml"
CHECK = "test"
_LIMIT = "limit.txt"
_CONFIGURATION = ".github/imq.yml"
_CI = """name: CI
on:
  push:
    branches: ["imq/**"]
  pull_request:
jobs:
  test:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - run: make test
"""
_TEAS = ("assam", "chai", "darjeeling", "genmaicha", "hojicha", "keemun", "matcha", "oolong", "sencha", "yunnan")

BASE_LIMIT: Mapping[str, str] = {_LIMIT: "95\n"}
"""What the base gets while the pull requests are open: no recipe may be hotter."""


@dataclass(frozen=True, slots=True)
class TrainChange:
    """A pull request that adds one file; `bad` if its tests fail on a base with a limit."""

    number: int
    title: str
    files: Mapping[str, str]
    bad: bool


def start_files(runs: int) -> Mapping[str, str]:
    """Return the files of the repository, with the configuration for so many runs at once; 0: no trains."""
    trains = f"trains: {{candidates: push, runs: {runs}}}\n" if runs else "trains: off\n"
    return {"README.md": "# Recipes\n", WORKFLOW: _CI, _CONFIGURATION: f"merge: {{method: merge}}\n{trains}"}


def changes_of(count: int, share: float, seed: int) -> tuple[TrainChange, ...]:
    """Return so many pull requests, of which this share is bad; the seed decides which."""
    chance = random.Random(seed)
    bad = set(chance.sample(range(count), round(count * share)))
    return tuple(_recipe(number, number in bad) for number in range(count))


def passes(files: Mapping[str, str]) -> bool:
    """Whether a tree passes: no recipe is hotter than the limit, if there is one."""
    limit = int(files.get(_LIMIT, "1000"))
    return all(int(text.split()[1]) <= limit for path, text in files.items() if path.startswith("recipes/"))


def _recipe(number: int, bad: bool) -> TrainChange:
    tea = _TEAS[number % len(_TEAS)]
    degrees = 120 if bad else 60 + number % 30
    title = f"Add recipe {number + 1}: {tea}"
    return TrainChange(number, title, {f"recipes/{number + 1:02}-{tea}.txt": f"{tea} {degrees} degrees\n"}, bad)
