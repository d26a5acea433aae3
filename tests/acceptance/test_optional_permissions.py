"""An App without the permissions that may be left out: the queue works, and says what does not."""

from pathlib import Path

import pytest

from bot.gateway.http.scopes import OPTIONAL
from tests.acceptance.choosing import configure, green
from tests.acceptance.test_configuration import validate
from tests.acceptance.test_rules import RED
from tests.acceptance.world import CI_TIME, LABEL, World


@pytest.mark.parametrize("permission", OPTIONAL)
async def test_queue_lands_without_an_optional_permission(world: World, permission: str, tmp_path: Path) -> None:
    """A green change lands, a red one leaves; the operator reads what stops working."""
    await configure(world, "when_not_ready: refuse\n")
    world.grant(permission, None)
    world.bot.gateway.forget_token(next(iter(world.github.state.installations)))
    pull, red = await green(world, "sound"), await green(world, "red", files=RED)
    for each in (pull, red):
        each.label(LABEL, by="mona")
    await world.until(lambda: pull.merged and LABEL not in red.labels, within=CI_TIME * 10)
    await world.settle()
    assert await world.reasons(red) == ["checks_failed"]
    result = await validate(world, tmp_path, "", "--against", f"acme/widgets#{red.number}", "--by", "mona")
    assert f"- {permission}: {OPTIONAL[permission].without}" in result.stdout
