"""Compare everything that an emulator answers and sends in a test with the schemas that GitHub publishes."""

import json

from github_emulator import EmulatorServer, GitHub
from github_emulator.rest.reply import Reply
from github_emulator.rest.request_handler import ApiRequest
from github_schemas import octokit

_KNOWN: set[int] = set()
"""Hashes of the answers that were compared by this process: worlds begin alike."""


def compare_answers(server: EmulatorServer) -> None:
    """Compare each answer of the REST API as it is given; `server.stop` raises the first difference.

    GraphQL answers only what its schema allows, which is a part of GitHub's.
    """
    answer = server._request_handler.answer

    def compared(incoming: ApiRequest) -> Reply:
        reply = answer(incoming)
        route = incoming.route
        if route is None or route.resource != "core" or "json" not in reply.headers.get("Content-Type", ""):
            return reply
        its_hash = hash((route.template, reply.status, reply.body))
        if "raw" in reply.headers["Content-Type"] or its_hash in _KNOWN:
            return reply
        try:
            octokit.check_answer(route.template, reply.status, json.loads(reply.body))
        except AssertionError as difference:
            server.crashes.append(difference)
        else:
            _KNOWN.add(its_hash)
        return reply

    server._request_handler.answer = compared  # type: ignore[method-assign]


def compare_webhooks(github: GitHub) -> None:
    """Compare each delivery to an App."""
    for delivery in github.state.deliveries:
        octokit.check_webhook(delivery.event, json.loads(delivery.payload))
