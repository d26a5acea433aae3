"""The rehearsal of docs/self-hosting.md: the emulator's command writes the settings that IMQ reads."""

import asyncio
import sys
from pathlib import Path

from bot.registration.manifest import read_manifest
from bot.settings import env_file
from bot.settings.environment import load_settings
from github_emulator import EVENT_PERMISSIONS
from github_emulator.__main__ import PERMISSIONS
from tests.support.real_time import LIMIT

_LEVELS = ("read", "write", "admin")


async def test_settings_that_the_emulator_writes_are_imqs(tmp_path: Path) -> None:
    """A person who rehearses copies no secret."""
    file = tmp_path / ".env"
    command = ("--port", "0", "--env-prefix", "IMQ_", "--env-file", str(file))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "github_emulator", *command, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        await asyncio.wait_for(process.stdout.readline(), LIMIT)
        settings = load_settings(env_file.read(file))
    finally:
        process.terminate()
        await process.communicate()
    assert settings.github_private_key.get_secret_value().startswith("-----BEGIN")
    assert settings.github_api_url.startswith("http://127.0.0.1:")


def test_app_of_the_command_has_what_imq_asks_for() -> None:
    """`imq doctor` finds nothing missing in a rehearsal."""
    manifest = read_manifest()
    lacking = {
        name
        for name, level in manifest.permissions.items()
        if name not in PERMISSIONS or _LEVELS.index(PERMISSIONS[name]) < _LEVELS.index(level)
    }
    assert lacking == set()
    assert set(manifest.events) <= set(EVENT_PERMISSIONS)
