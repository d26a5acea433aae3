"""Compare everything that an emulator answers and sends in a test with the schemas that GitHub publishes."""

import json

from github_emulator import EmulatorServer, GitHub, RecordedCall, Reply
from github_schemas import octokit

_KNOWN: set[int] = set()
"""Hashes of the answers that were compared by this process: worlds begin alike."""


def compare_answers(server: EmulatorServer) -> None:
    """Compare each answer of the REST API as it is given; `server.stop` raises the first difference.

    GraphQL answers only what its schema allows, which is a part of GitHub's.
    """

    def compare(call: RecordedCall, reply: Reply) -> None:
        kind = reply.headers.get("Content-Type", "")
        if call.template == "unknown" or call.resource != "core" or "json" not in kind or "raw" in kind:
            return
        its_hash = hash((call.template, reply.status, reply.body))
        if its_hash not in _KNOWN:
            octokit.check_answer(call.template, reply.status, json.loads(reply.body))
            _KNOWN.add(its_hash)

    server.on_reply = compare


def compare_webhooks(github: GitHub) -> None:
    """Compare each delivery to an App."""
    for delivery in github.state.deliveries:
        octokit.check_webhook(delivery.event, json.loads(delivery.payload))
