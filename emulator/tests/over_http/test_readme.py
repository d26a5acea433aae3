"""The examples of the README do what it says."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
LIMIT = 600.0
"""Seconds after which a command that hangs fails its test."""


def blocks(language: str) -> list[str]:
    """The examples in a language, in their order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_example_of_a_test_passes() -> None:
    """A person who copies it has a test that passes."""
    (example,) = blocks("python")
    exec(compile(example, README.name, "exec"), {"__name__": "example"})


@pytest.mark.process
async def test_commands_run_as_they_are_written(tmp_path: Path) -> None:
    """The server in one shell, and each line of the others in a second one."""
    if shutil.which("curl") is None:
        pytest.skip("no curl")
    await run_commands(Path(sys.executable).parent, tmp_path)


async def run_commands(commands: Path, directory: Path) -> None:
    """Run the README's commands but for the installation, with the programs of this folder first on the path."""
    install, start, *others = blocks("sh")
    assert install == "pip install github-emulator\n"
    environ = {**os.environ, "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"}
    server = await asyncio.create_subprocess_shell(f"exec {start}", cwd=directory, env=environ, stdout=subprocess.PIPE)
    assert server.stdout is not None
    try:
        printed = await asyncio.wait_for(server.stdout.readline(), LIMIT)
        assert b'"url": "http://127.0.0.1:' in printed
        reader = await asyncio.create_subprocess_shell(
            "set -e\n" + "".join(others), cwd=directory, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        output, _ = await asyncio.wait_for(reader.communicate(), LIMIT)
    finally:
        server.terminate()
        await server.communicate()
    assert reader.returncode == 0, output.decode()
    assert '"title": "Describe the widgets"' in output.decode()
    assert '"login": "ann"' in output.decode()
    assert server.returncode == 0
