"""The command `github-emulator`, and what it is asked at `/_emulator`."""

import asyncio
import base64
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from github_emulator import __version__
from github_emulator.__main__ import main
from over_http import LIMIT
from over_http.conftest import Client, R


@asynccontextmanager
async def a_server(*options: str) -> AsyncIterator[dict[str, Any]]:
    """The command as a process of its own, and the line that it printed; it ends with code 0 at SIGTERM."""
    command = (sys.executable, "-m", "github_emulator", *options)
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield json.loads(await asyncio.wait_for(process.stdout.readline(), LIMIT))
    finally:
        process.send_signal(signal.SIGTERM)
        await process.communicate()
    assert process.returncode == 0


async def asked(method: str, url: str, token: str = "", body: Any = None) -> Any:
    """The JSON of an answer that is a success."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.request(method, url, json=body, raise_for_status=True) as answer,
    ):
        return await answer.json()


@pytest.mark.process
async def test_command_prints_how_to_use_it_and_serves(tmp_path: Path) -> None:
    """The same is in a file that only its owner reads, for a shell or a program."""
    file, manifest = tmp_path / "app.env", tmp_path / "manifest.json"
    manifest.write_text(json.dumps({"name": "My CI", "default_permissions": {"checks": "write"}}))
    options = ("--port", "0", "--repository", "maintainer/widgets", "--manifest", str(manifest))
    async with a_server(*options, "--env-file", str(file), "--env-prefix", "CI_") as printed:
        pulls = await asked("GET", f"{printed['url']}/repos/maintainer/widgets/pulls", printed["tokens"]["maintainer"])
        app = await asked("PUT", f"{printed['url']}/_emulator/people/ann")
    assert [pull["number"] for pull in pulls] == [1]
    assert app["login"] == "ann"
    assert printed.keys() >= {"app_id", "private_key", "webhook_secret", "installation_id", "tokens"}
    settings = dict(line.split("=", 1) for line in file.read_text().splitlines())
    assert settings["CI_GITHUB_API_URL"] == printed["url"]
    assert settings["CI_GITHUB_APP_ID"] == str(printed["app_id"])
    assert base64.b64decode(settings["CI_GITHUB_PRIVATE_KEY"]).decode() == printed["private_key"]
    assert settings["CI_GITHUB_WEBHOOK_SECRET"] == printed["webhook_secret"]
    assert settings["GITHUB_TOKEN"] == printed["tokens"]["maintainer"]
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.process
async def test_time_of_a_server_that_stands_still_passes_when_it_is_asked() -> None:
    """A program in any language tests what happens in an hour without waiting for it."""
    async with a_server("--speed", "0") as printed:
        pull = f"{printed['url']}/repos/acme/widgets/commits/widgets/check-runs"
        before = await asked("GET", pull, printed["tokens"]["maintainer"])
        await asked("POST", f"{printed['url']}/_emulator/time", body={"seconds": 3600})
        after = await asked("GET", pull, printed["tokens"]["maintainer"])
    assert [run["conclusion"] for run in before["check_runs"]] in ([], [None])
    assert [run["conclusion"] for run in after["check_runs"]] == ["success"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--env-file", "taken.env"], "taken.env exists already: remove it"),
        (["--manifest", "taken.env"], "Expecting value"),
        (["--manifest", "missing.json"], "No such file"),
    ],
)
def test_command_says_in_a_sentence_why_it_cannot_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    """Such as a file that exists already: it may be the settings of an App on GitHub."""
    monkeypatch.chdir(tmp_path)
    Path("taken.env").write_text("GITHUB_APP_ID=1\n")
    with pytest.raises(SystemExit) as ended:
        main(options)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err
    assert Path("taken.env").read_text() == "GITHUB_APP_ID=1\n"


def test_command_shows_its_version_and_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` names each option with its meaning."""
    for option, words in (("--version", f"github-emulator {__version__}"), ("--help", "the port to listen on")):
        with pytest.raises(SystemExit) as ended:
            main([option])
        assert ended.value.code == 0
        assert words in " ".join(capsys.readouterr().out.split())


async def test_faults_and_lag_are_set_over_http(client: Client) -> None:
    """A test in another language makes GitHub fail, be late and drop webhooks; its own requests are not recorded."""
    place, count = f"{client.server.url}/_emulator", len(client.server.requests)
    await put(client, "POST", f"{place}/faults", 201, {"kind": "fail", "method": "GET", "status": 502, "times": 1})
    await client.get(R, 502)
    await put(client, "PUT", f"{place}/lag", 204, {"seconds": 60, "kinds": ["pull_request"]})
    await put(client, "POST", f"{place}/webhook-faults", 201, {"kind": "delay", "seconds": 30, "event": "label"})
    await put(client, "POST", f"{place}/webhook-faults", 201, {"kind": "drop", "event": "pull_request"})
    pull = client.repo.open_pull_request("Change", head="topic", by="ann", files={"b": "1\n"})
    await client.get(f"{R}/pulls/{pull.number}", 404)
    await client.settle(60)
    await client.get(f"{R}/pulls/{pull.number}")
    assert "pull_request" not in {headers["X-GitHub-Event"] for headers, _ in client.receiver.received}
    shown = await put(client, "PATCH", f"{place}/behaviour", 200, {"graphql": False})
    assert shown["graphql"] is False
    await client.call("POST", "/graphql", 404, json_body={"query": "{ rateLimit { remaining } }"})
    now = await put(client, "POST", f"{place}/time", 200, {"seconds": 5})
    assert now["now"] == client.clock.now().isoformat()
    await put(client, "POST", f"{place}/faults", 201, {"kind": "reset", "times": None})
    await put(client, "DELETE", f"{place}/faults", 204)
    await client.get(R)
    requests = await put(client, "GET", f"{place}/requests", 200)
    assert [each["status"] for each in requests[count:]] == [502, 404, 200, 404, 200]
    assert requests[-1] == {"method": "GET", "path": R, "template": "GET /repos/{owner}/{repo}", "status": 200}


@pytest.mark.parametrize(
    ("address", "body", "words"),
    [
        ("POST faults", {"kind": "explode"}, "no fault is called 'explode'"),
        ("POST faults", {"knd": "fail"}, "the body is an object with some of body, delay"),
        ("POST webhook-faults", {"kind": "lose"}, "kind is one of drop, double"),
        ("PUT lag", {"seconds": 1, "kinds": ["branches"]}, "no kind of read is called branches"),
        ("PUT lag", {"seconds": "1"}, "seconds is a number of seconds"),
        ("PATCH behaviour", {"graphqll": False}, "the body is an object with some of"),
    ],
)
async def test_what_the_emulator_is_asked_wrongly_is_refused_in_a_sentence(
    client: Client, address: str, body: Any, words: str
) -> None:
    """A test that misspells a fault would else test nothing."""
    method, _, path = address.partition(" ")
    assert words in (await put(client, method, f"{client.server.url}/_emulator/{path}", 400, body))["message"]


async def put(client: Client, method: str, url: str, status: int, body: Any = None) -> Any:
    """What the emulator answers for itself: no endpoint of GitHub's, so that no schema is asked."""
    async with client.session.request(method, url, json=body) as answer:
        assert answer.status == status, await answer.text()
        return await answer.json() if answer.content_type == "application/json" else None
