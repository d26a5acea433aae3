"""How the parts of a process are put together."""

import re
from pathlib import Path

import pytest

import bot
from bot.gateway.people import TokenPermissions
from bot.process.wiring import Bot
from queue_engine.known.github_reads import GitHubReads
from tests.acceptance.world import World, a_world


def parts_with_github(made: Bot) -> dict[str, object]:
    """What each part that asks GitHub asks it through, by the part's name."""
    return {
        "engine": made.engine.github,
        "policies": vars(made.engine.policies)["_files"],
        "dispatcher": vars(vars(made.dispatcher)["_writer"])["_github"],
    }


def _compared(port: object) -> object:
    """The port behind the one that answers for the permissions of tokens."""
    return port._github if isinstance(port, TokenPermissions) else port


@pytest.mark.thorough
async def test_every_part_reads_github_through_the_port_that_compares(world: World) -> None:
    """P1: no caller bypasses the known facts."""
    parts = parts_with_github(world.bot)
    assert {name for name, port in parts.items() if not isinstance(_compared(port), GitHubReads)} == set()
    assert len({id(port) for port in parts.values()}) == 1


def test_gateway_is_made_in_one_place_and_for_commands() -> None:
    """Commands decide nothing, and may have no database: they read GitHub as it answers."""
    root = Path(bot.__file__).parent
    makers = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if re.search(r"^from bot\.gateway(\.gateway)? import .*\bGateway\b", path.read_text(), re.M)
    }
    doctor = {f"doctor/{name}.py" for name in ("examination", "doctor_facts")}
    assert makers - {"gateway/__init__.py"} == {"process/wiring.py", "cli/github.py"} | doctor


@pytest.mark.thorough
async def test_operator_sets_how_many_queues_are_advanced_at_once(tmp_path: Path) -> None:
    """The scheduler has as many places; how it divides them is a test of its own."""
    for settings, expected in (({}, 8), ({"IMQ_CONCURRENCY": "3"}, 3)):
        async with a_world(tmp_path / str(expected), settings=settings) as world:
            assert vars(world.bot.scheduler)["_pool"].free == expected
