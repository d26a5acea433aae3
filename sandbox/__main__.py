"""A sandbox GitHub to play with: `python -m sandbox --port 0` serves one until it is interrupted.

The first line printed is JSON: where it is served, and the app and the people's tokens to use it with.
"""

import argparse
import asyncio
import json
import secrets
import signal
import sys
from collections.abc import Sequence

from sandbox.core.clock import SystemClock
from sandbox.facade.github import GitHub
from sandbox.rest.server import SandboxServer

PERMISSIONS = {
    "actions": "write",
    "administration": "read",
    "checks": "write",
    "contents": "write",
    "issues": "read",
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
    "push",
    "repository",
    "repository_ruleset",
    "status",
    "workflow_run",
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parses the arguments and serves until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m sandbox", description="A local GitHub on real git.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--speed", type=float, default=1.0, help="how many times as fast time runs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repository", default="acme/widgets")
    parser.add_argument("--webhook-url", help="where the app's webhooks go")
    asyncio.run(serve(parser.parse_args(arguments)))


async def serve(options: argparse.Namespace) -> None:
    """One repository, one app installed on it, one maintainer; until a signal comes."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    github = GitHub(SystemClock(options.speed), seed=options.seed)
    server = SandboxServer(
        github, host=options.host, port=options.port, jwt_clock=SystemClock(), token_seed=secrets.randbits(128)
    )
    try:
        owner = options.repository.partition("/")[0]
        github.create_user(owner)
        github.create_user("maintainer")
        app = github.create_app(
            "merge-queue",
            permissions=PERMISSIONS,
            events=EVENTS,
            webhook_url=options.webhook_url,
            webhook_secret=secrets.token_hex(32),
        )
        repository = github.create_repository(
            options.repository,
            files={"README.md": "A repository of the sandbox.\n"},
            collaborators={"maintainer": "admin"},
        )
        repository.add_ci("ci/test")
        installation = github.install(app, owner)
        await server.start()
        _print(
            {
                "url": server.url,
                "repository": options.repository,
                "app_id": app.id,
                "client_id": app.client_id,
                "installation_id": installation.id,
                "private_key": app.private_key,
                "webhook_secret": app.webhook_secret,
                "tokens": {"maintainer": server.user_token("maintainer")},
            }
        )
        await github.schedule.run(stop)
    finally:
        await server.stop()
        await github.close()


def _print(content: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
