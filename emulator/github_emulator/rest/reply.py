"""What goes over the wire: bytes with status and headers, from answers, refusals and faults."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from github_emulator.callers.errors import Refusal, body_of
from github_emulator.core.errors import ApiError
from github_emulator.rest.answer import Answer
from github_emulator.rest.etag import etag, matches

_JSON = "application/json; charset=utf-8"
_HTML = "text/html; charset=utf-8"
_RAW = "application/vnd.github.raw+json; charset=utf-8"


@dataclass(frozen=True)
class Reply:
    """One HTTP answer, ready to send."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    def with_headers(self, headers: Mapping[str, str]) -> "Reply":
        """The same answer with more headers; those it has already stay."""
        return replace(self, headers={**headers, **self.headers})

    def misleading(self) -> "Reply":
        """The same answer with links that are no addresses."""
        links = ", ".join(f'<http://[{relation}>; rel="{relation}"' for relation in ("next", "last", "prev"))
        return replace(self, headers={**self.headers, "Link": links})

    def cut(self) -> "Reply":
        """The same answer with a body that ends half-way: not JSON."""
        return replace(self, body=self.body[: len(self.body) // 2] or b"{")


def of_content(status: int, content: Any, headers: Mapping[str, str] | None = None) -> Reply:
    """A JSON answer, an HTML page when the content is a string, or a file when it is bytes."""
    if isinstance(content, bytes):
        return Reply(status, content, {"Content-Type": _RAW, **(headers or {})})
    if isinstance(content, str):
        return Reply(status, content.encode(), {"Content-Type": _HTML, **(headers or {})})
    return Reply(status, json.dumps(content).encode(), {"Content-Type": _JSON, **(headers or {})})


def of_answer(answer: Answer, token: str) -> Reply:
    """An endpoint's answer to a token; a None body has no content type, as with 204."""
    if answer.body is None:
        return Reply(answer.status, b"", dict(answer.headers))
    reply = of_content(answer.status, answer.body, answer.headers)
    return reply.with_headers({"ETag": etag(reply.body, token)}) if answer.status < 300 else reply


def of_error(error: ApiError, docs: str) -> Reply:
    """A refusal; `docs` is the endpoint's page where the refusal has none of its own."""
    return of_content(error.status, body_of(error, docs), error.headers if isinstance(error, Refusal) else None)


def conditional(reply: Reply, if_none_match: str | None) -> Reply:
    """304 without a body when the client has this one already."""
    tag = reply.headers.get("ETag")
    if reply.status != 200 or tag is None or not matches(if_none_match, tag):
        return reply
    kept = {name: value for name, value in reply.headers.items() if name != "Content-Type"}
    return Reply(304, b"", kept)
