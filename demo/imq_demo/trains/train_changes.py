"""The repository of the comparison, and its pull requests: some pass alone and fail on the present base. Pure."""

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
    partner: int | None = None
    """The number of the one that it fails with, once both are in a tree."""


def start_files(runs: int) -> Mapping[str, str]:
    """Return the files of the repository, with the configuration for so many runs at once; 0: no trains."""
    trains = f"trains: {{candidates: push, runs: {runs}}}\n" if runs else "trains: off\n"
    return {"README.md": "# Recipes\n", WORKFLOW: _CI, _CONFIGURATION: f"merge: {{method: merge}}\n{trains}"}


def changes_of(count: int, share: float, seed: int, *, pairs: bool = False) -> tuple[TrainChange, ...]:
    """Return so many pull requests, of which this share is to leave; the seed decides which.

    `pairs`: those are good alone, and each fails together with another one. Then one of the two lands.
    """
    chance = random.Random(seed)
    if not pairs:
        bad = set(chance.sample(range(count), round(count * share)))
        return tuple(_recipe(number, number in bad) for number in range(count))
    chosen = chance.sample(range(count), 2 * min(round(count * share), count // 2))
    partners = {
        **dict(zip(chosen[::2], chosen[1::2], strict=True)),
        **dict(zip(chosen[1::2], chosen[::2], strict=True)),
    }
    return tuple(_recipe(number, False, partners.get(number)) for number in range(count))


def passes(files: Mapping[str, str]) -> bool:
    """Whether a tree passes: no recipe is hotter than the limit, if there is one, and no two have the same spice."""
    limit = int(files.get(_LIMIT, "1000"))
    recipes = [text.split() for path, text in files.items() if path.startswith("recipes/")]
    spices = [spice for _, _, _, *mixed in recipes for spice in mixed]
    return all(int(words[1]) <= limit for words in recipes) and len(spices) == len(set(spices))


def _recipe(number: int, bad: bool, partner: int | None = None) -> TrainChange:
    tea = _TEAS[number % len(_TEAS)]
    degrees = 120 if bad else 60 + number % 30
    title = f"Add recipe {number + 1}: {tea}"
    spice = "" if partner is None else f" spice-{min(number, partner) + 1}"
    files = {f"recipes/{number + 1:02}-{tea}.txt": f"{tea} {degrees} degrees{spice}\n"}
    return TrainChange(number, title, files, bad, partner)
