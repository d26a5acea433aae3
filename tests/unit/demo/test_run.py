"""The whole demo as its user runs it: with the real bot, to the verdict, and cleanly to the end."""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from imq_demo.run import run_demo
from tests.support.real_time import LIMIT

pytestmark = pytest.mark.process


@pytest.mark.thorough
@pytest.mark.process
@pytest.mark.slow
async def test_demo_at_high_speed_prints_its_verdict_and_cleans_up(tmp_path: Path) -> None:
    """Everything holds, `--keep-open` says how to act, Ctrl-C ends it with exit code 0 and leaves nothing behind."""
    demo = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bot", "demo", "--speed", "20", "--seed", "3", "--keep-open"),
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1", "TERM": "dumb"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        # A shell starts background jobs with SIGINT ignored, and their children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        async with asyncio.timeout(LIMIT):
            output = await _until(demo, "may be queued")
            demo.send_signal(signal.SIGINT)
            rest, _ = await demo.communicate()
    finally:
        if demo.returncode is None:
            demo.kill()
            await demo.wait()
    text = output + rest.decode()
    assert "Verdict: main was green at every commit" in text, text
    assert "7 of 10 pull requests landed" in text
    assert "git clone" in text
    assert demo.returncode == 0, text
    assert _entries(tmp_path) == []


def test_demo_reports_a_bot_that_does_not_start_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bot that ends at once ends the demo with exit code 1; its log is kept and named, all else is removed."""
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert run_demo(speed=1.0, seed=1, keep_open=False) == 1
    (log,) = tmp_path.iterdir()
    assert log.name.endswith(".log")
    output = capsys.readouterr().out
    assert "the bot ended with exit code 1" in output
    assert log.name in output.replace("\n", "")


async def _until(process: asyncio.subprocess.Process, words: str) -> str:
    """What the process says up to the line with these words, or to its end."""
    assert process.stdout is not None
    text = ""
    async for line in process.stdout:
        text += line.decode()
        if words in text:
            break
    return text


def _entries(directory: Path) -> list[str]:
    return [entry.name for entry in directory.iterdir()]
