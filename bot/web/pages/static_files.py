"""Style sheets, scripts and pictures: read once, named by the hash of their content, kept by browsers for a year."""

import hashlib
import hmac
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from aiohttp import web

FOLDER = Path(__file__).parents[1] / "static"

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_IMMUTABLE = "public, max-age=31536000, immutable"
_CHECKED = "public, no-cache"
"""A browser that asks with an older hash gets the present file, and keeps it under no wrong name."""


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    content_type: str
    digest: str


def static_url(name: str) -> str:
    """Return the address of a file, with its hash. Raises KeyError for an unknown file."""
    return f"/static/{name}?v={_files()[name].digest}"


def static_route() -> web.RouteDef:
    """Return the route of all files."""
    return web.get("/static/{name:[a-z0-9_-]+[.](?:css|js|svg)}", _send_static)


async def _send_static(request: web.Request) -> web.Response:
    """Answer `GET /static/{name}`."""
    file = _files().get(request.match_info["name"])
    if file is None:
        raise web.HTTPNotFound
    known = hmac.compare_digest(request.query.get("v", "").encode(), file.digest.encode())
    headers = {
        "Cache-Control": _IMMUTABLE if known else _CHECKED,
        "ETag": f'"{file.digest}"',
        "X-Content-Type-Options": "nosniff",
    }
    if request.headers.get("If-None-Match") == headers["ETag"]:
        return web.Response(status=304, headers=headers)
    return web.Response(body=file.content, content_type=file.content_type, charset="utf-8", headers=headers)


@cache
def _files() -> dict[str, _File]:
    found = (path for path in sorted(FOLDER.iterdir()) if path.suffix in _TYPES)
    return {path.name: _read(path) for path in found}


def _read(path: Path) -> _File:
    content = path.read_bytes()
    return _File(content, _TYPES[path.suffix], hashlib.sha256(content).hexdigest()[:16])
