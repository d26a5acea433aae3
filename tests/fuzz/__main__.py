"""Command line: `python -m tests.fuzz --seconds 60 receiver configuration commands`."""

import argparse
import secrets
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from tests.fuzz.deliveries import Server, deliveries
from tests.fuzz.texts import check_commands, check_configuration, comments, configurations

ROUND = 200
"""Examples between two looks at the clock."""

Target = tuple[st.SearchStrategy[Any], Callable[[Any], None]]


def targets(stack: ExitStack, names: list[str]) -> dict[str, Target]:
    """The chosen targets; a server runs until `stack` is closed."""
    known: dict[str, Callable[[], Target]] = {
        "receiver": lambda: (deliveries(), stack.enter_context(Server()).check),
        "configuration": lambda: (configurations(), check_configuration),
        "commands": lambda: (comments(), check_commands),
    }
    return {name: known[name]() for name in names or known}


def attack(target: Target, seconds: float, first_seed: int) -> int:
    """Try random examples for so long; returns how many. Raises what the first failing one raised, made small."""
    strategy, check = target
    tried = 0

    def one(example: Any) -> None:
        nonlocal tried
        tried += 1
        check(example)

    until, number = time.monotonic() + seconds, first_seed
    while time.monotonic() < until:
        quiet = settings(max_examples=ROUND, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        seed(number)(quiet(given(strategy)(one)))()
        number += 1
    return tried


def main(arguments: list[str]) -> int:
    """Attack each target for its share of the time; the exit code is 1 once something is found."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument(
        "targets", nargs="*", choices=["receiver", "configuration", "commands", []], help="default: all"
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="for all targets together")
    parser.add_argument("--seed", type=int, default=None, help="that an earlier run printed")
    options = parser.parse_args(arguments)
    start = secrets.randbelow(2**31) if options.seed is None else options.seed
    print(f"seed {start}", flush=True)
    with ExitStack() as stack:
        chosen = targets(stack, options.targets)
        for name, target in chosen.items():
            tried = attack(target, options.seconds / len(chosen), start)
            print(f"{name}: {tried} inputs, nothing found", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
