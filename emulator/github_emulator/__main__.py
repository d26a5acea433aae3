"""The command `github-emulator`, which is `python -m github_emulator`: a server with one repository and one App.

The first line that it prints is JSON: its address, the App's credentials, and a person's token.
"""

import argparse
import asyncio
import base64
import json
import os
import secrets
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from github_emulator import EVENT_PERMISSIONS, EmulatorServer, GitHub, ManualClock, SystemClock, __version__
from github_emulator.core.behaviour import ENTERPRISE_SERVERS
from github_emulator.rest.endpoints import ROUTES

PERMISSIONS = {
    **dict.fromkeys(("actions", "administration", "checks", "contents", "issues", "members"), "write"),
    **dict.fromkeys(("pull_requests", "statuses", "workflows"), "write"),
    "metadata": "read",
}
"""Those of the App, unless a manifest has others: all that the emulator knows."""

PERSON = "maintainer"
_OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("--host", {"default": "127.0.0.1", "help": "the address to listen on (127.0.0.1)"}),
    ("--port", {"type": int, "default": 0, "help": "the port to listen on; 0, the default, takes a free one"}),
    ("--repository", {"default": "acme/widgets", "metavar": "OWNER/NAME", "help": "the repository (acme/widgets)"}),
    ("--webhook-url", {"metavar": "URL", "help": "where the App's webhooks go; without it none is sent"}),
    ("--manifest", {"type": Path, "metavar": "FILE", "help": "the App's manifest, in GitHub's JSON format"}),
    ("--env-file", {"type": Path, "metavar": "FILE", "help": "a new file for address and credentials"}),
    ("--env-prefix", {"default": "", "metavar": "PREFIX", "help": "stands before the App's settings there"}),
    ("--speed", {"type": float, "default": 1.0, "help": "how fast time runs; 0 stops it"}),
    ("--enterprise-server", {"default": "", "choices": ENTERPRISE_SERVERS, "help": "be a GitHub Enterprise Server"}),
    ("--seed", {"type": int, "default": 0, "help": "decides ids, flaky checks and other chances (0)"}),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the arguments, and serve until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(
        prog="github-emulator",
        description="Serve a GitHub on real git, with one repository, one pull request, a CI, and one App installed.",
        epilog="The first line printed is JSON: the address, the App's credentials, and a person's token.",
    )
    for name, settings in _OPTIONS:
        parser.add_argument(name, **settings)
    parser.add_argument("--endpoints", action="store_true", help="list the endpoints, as Markdown, and exit")
    parser.add_argument("--version", action="version", version=f"github-emulator {__version__}")
    options = parser.parse_args(arguments)
    if options.endpoints:
        sys.stdout.writelines(f"{line}\n" for line in endpoints())
        return
    try:
        asyncio.run(serve(options))
    except FileExistsError as error:
        parser.error(f"{error.filename} exists already: remove it, or name another file")
    except (OSError, ValueError) as error:
        parser.error(str(error))


def endpoints() -> Iterator[str]:
    """The lines of a table of all endpoints, each with the permissions of which an App needs one."""
    yield "| endpoint | an App needs |"
    yield "| --- | --- |"
    for route in ROUTES:
        who = {"anyone": "nothing", "app": "its own JSON web token"}.get(route.access.who)
        yield f"| `{route.template}` | {who or ' or '.join(f'`{need}`' for need in route.access.needs)} |"


async def serve(options: argparse.Namespace) -> None:
    """Serve until a signal comes. Raises OSError, and ValueError for a manifest that is none."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    clock = SystemClock(options.speed) if options.speed else ManualClock(datetime.now(UTC))
    github = GitHub(clock, seed=options.seed)
    github.behaviour.enterprise_server = options.enterprise_server
    server = EmulatorServer(
        github, host=options.host, port=options.port, jwt_clock=SystemClock(), token_seed=secrets.randbits(128)
    )
    try:
        app = _furnish(github, options)
        await server.start()
        content = {"url": server.url, **app, "tokens": {PERSON: server.user_token(PERSON)}}
        if options.env_file is not None:
            _write_settings(options.env_file, options.env_prefix, content)
        sys.stdout.write(json.dumps(content) + "\n")
        sys.stdout.flush()
        await github.schedule.run(stop)
    finally:
        await server.stop()
        await github.close()


def _furnish(github: GitHub, options: argparse.Namespace) -> dict[str, object]:
    """Create people, App, repository and pull request; return what a user of the App needs."""
    owner = options.repository.partition("/")[0]
    for login in dict.fromkeys((owner, PERSON)):
        github.create_user(login)
    manifest = {} if options.manifest is None else json.loads(options.manifest.read_text(encoding="utf-8"))
    app = github.create_app(
        str(manifest.get("name", "my-app")).lower().replace(" ", "-"),
        permissions=manifest.get("default_permissions", PERMISSIONS),
        events=manifest.get("default_events", tuple(EVENT_PERMISSIONS)),
        webhook_url=options.webhook_url or (manifest.get("hook_attributes") or {}).get("url"),
        webhook_secret=secrets.token_hex(32),
    )
    app.device_flow = True
    repository = github.create_repository(
        options.repository,
        files={"README.md": "A repository of the emulator.\n"},
        collaborators={PERSON: "admin"},
    )
    repository.add_ci("ci/test")
    installation = github.install(app, owner)
    repository.open_pull_request(
        "Describe the widgets", head="widgets", by=PERSON, files={"widgets.md": "They turn.\n"}
    )
    return {
        "repository": options.repository,
        "app_id": app.id,
        "client_id": app.client_id,
        "installation_id": installation.id,
        "private_key": app.private_key,
        "webhook_secret": app.webhook_secret,
    }


def _write_settings(file: Path, prefix: str, content: Mapping[str, Any]) -> None:
    """Write a new file of settings, for a shell or a dotenv library, that only its owner reads.

    The App's have the prefix; the private key is in base64, since it has several lines. Raises FileExistsError.
    """
    settings = {
        f"{prefix}GITHUB_API_URL": content["url"],
        f"{prefix}GITHUB_APP_ID": content["app_id"],
        f"{prefix}GITHUB_PRIVATE_KEY": base64.b64encode(str(content["private_key"]).encode()).decode(),
        f"{prefix}GITHUB_WEBHOOK_SECRET": content["webhook_secret"],
        "GITHUB_TOKEN": content["tokens"][PERSON],
    }
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.writelines(f"{name}={value}\n" for name, value in settings.items())


if __name__ == "__main__":
    main()
