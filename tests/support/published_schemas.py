"""Compare everything that an emulator answers and sends in a test with the schemas that GitHub publishes."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from github_emulator import EmulatorServer, GitHub, RecordedCall, Reply
from github_schemas import octokit

_KNOWN: set[int] = set()
"""Hashes of what this process compared already, without its server's address: worlds begin alike."""
_ALIKE = bytes.maketrans(b"123456789bcdef", b"000000000aaaaa")
"""Which digits an id, an instant or a commit has is no matter of a schema; how many it has may be."""


def _compare_once(github: GitHub, kind: object, body: bytes, compare: Callable[[Any], None]) -> None:
    its_hash = hash((kind, body.replace(github.addresses.api_url.encode(), b"").translate(_ALIKE)))
    if its_hash not in _KNOWN:
        compare(json.loads(body))
        _KNOWN.add(its_hash)


def compare_answers(server: EmulatorServer) -> None:
    """Compare each answer of the REST API as it is given; `server.stop` raises the first difference.

    GraphQL answers only what its schema allows, which is a part of GitHub's.
    """

    def compare(call: RecordedCall, reply: Reply) -> None:
        kind = reply.headers.get("Content-Type", "")
        if call.template == "unknown" or call.resource != "core" or "json" not in kind or "raw" in kind:
            return
        answered = (call.template, reply.status)
        _compare_once(server.github, answered, reply.body, partial(octokit.check_answer, *answered))

    server.on_reply = compare


def compare_webhooks(github: GitHub) -> None:
    """Compare each delivery to an App."""
    for delivery in github.state.deliveries:
        _compare_once(github, delivery.event, delivery.payload.encode(), partial(octokit.check_webhook, delivery.event))
