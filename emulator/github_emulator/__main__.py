"""An emulated GitHub to play with: `python -m github_emulator --port 0` serves one until it is interrupted.

The first line printed is JSON: where it is served, and the app and the people's tokens to use it with.
"""

import argparse
import asyncio
import base64
import json
import os
import secrets
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from github_emulator.core.clock import SystemClock
from github_emulator.facade.github import GitHub
from github_emulator.rest.server import EmulatorServer

PERMISSIONS = {
    "actions": "write",
    "administration": "read",
    "checks": "write",
    "contents": "write",
    "issues": "write",
    "metadata": "read",
    "pull_requests": "write",
    "statuses": "read",
}
EVENTS = (
    "branch_protection_configuration",
    "branch_protection_rule",
    "check_run",
    "check_suite",
    "issue_comment",
    "pull_request",
    "pull_request_review",
    "pull_request_review_thread",
    "push",
    "repository",
    "repository_ruleset",
    "status",
    "workflow_run",
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parses the arguments and serves until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m github_emulator", description="A local GitHub on real git.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--speed", type=float, default=1.0, help="how many times as fast time runs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repository", default="acme/widgets")
    parser.add_argument("--webhook-url", help="where the app's webhooks go")
    parser.add_argument("--env-file", type=Path, help="a new file for the settings of an IMQ that uses this GitHub")
    options = parser.parse_args(arguments)
    try:
        asyncio.run(serve(options))
    except OSError as error:
        parser.error(str(error))


async def serve(options: argparse.Namespace) -> None:
    """One repository with one pull request, one app installed on it, one maintainer; until a signal comes."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    github = GitHub(SystemClock(options.speed), seed=options.seed)
    server = EmulatorServer(
        github, host=options.host, port=options.port, jwt_clock=SystemClock(), token_seed=secrets.randbits(128)
    )
    try:
        app = _furnish(github, options)
        await server.start()
        content = {"url": server.url, **app, "tokens": {"maintainer": server.user_token("maintainer")}}
        if options.env_file is not None:
            _write_settings(options.env_file, content)
        _print(content)
        await github.schedule.run(stop)
    finally:
        await server.stop()
        await github.close()


def _furnish(github: GitHub, options: argparse.Namespace) -> dict[str, object]:
    """Create people, App, repository and pull request; return what a user of the App needs."""
    owner = options.repository.partition("/")[0]
    for login in dict.fromkeys((owner, "maintainer")):
        github.create_user(login)
    app = github.create_app(
        "merge-queue",
        permissions=PERMISSIONS,
        events=EVENTS,
        webhook_url=options.webhook_url,
        webhook_secret=secrets.token_hex(32),
    )
    app.device_flow = True
    repository = github.create_repository(
        options.repository,
        files={"README.md": "A repository of the emulator.\n"},
        collaborators={"maintainer": "admin"},
    )
    repository.add_ci("ci/test")
    installation = github.install(app, owner)
    repository.open_pull_request(
        "Describe the widgets", head="widgets", by="maintainer", files={"widgets.md": "They turn.\n"}
    )
    return {
        "repository": options.repository,
        "app_id": app.id,
        "client_id": app.client_id,
        "installation_id": installation.id,
        "private_key": app.private_key,
        "webhook_secret": app.webhook_secret,
    }


def _write_settings(file: Path, content: Mapping[str, object]) -> None:
    """Write IMQ's settings to a new file that only its owner reads. Raises FileExistsError."""
    key = base64.b64encode(str(content["private_key"]).encode()).decode()
    settings = {
        "IMQ_GITHUB_APP_ID": content["app_id"],
        "IMQ_GITHUB_PRIVATE_KEY": key,
        "IMQ_GITHUB_WEBHOOK_SECRET": content["webhook_secret"],
        "IMQ_GITHUB_API_URL": content["url"],
    }
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.writelines(f"{name}={value}\n" for name, value in settings.items())


def _print(content: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
