"""Git over HTTP, as at `https://github.com/owner/name.git`: people clone, fetch and push with their git.

A push goes the way of the REST API: the same rules, webhooks and checks. Reads are git's own `upload-pack`; they show
the present, whatever lag the API has. Source: git's `gitprotocol-http(5)` and `gitprotocol-pack(5)`.
"""

import base64
import binascii
import os
from asyncio.subprocess import PIPE, create_subprocess_exec
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from aiohttp import web

from github_emulator.callers.tokens import Caller, Tokens
from github_emulator.callers.visibility import visible
from github_emulator.core.errors import ApiError, Invalid
from github_emulator.facade.github import GitHub
from github_emulator.state import Actor, Repository

_CAPABILITIES = "report-status delete-refs side-band-64k ofs-delta agent=github-emulator"
_FLUSH = b"0000"
_NONE = "0" * 40
_MOST = 65_515
"""Bytes of a packet in a side band."""


class GitServer:
    """The addresses of every repository's git. A person's or an App's token is the password, as on GitHub."""

    def __init__(self, github: GitHub, tokens: Tokens) -> None:
        self._github = github
        self._tokens = tokens

    def routes(self) -> list[web.RouteDef]:
        """What git asks for."""
        repository = "/{owner}/{repo}.git"
        return [
            web.get(f"{repository}/info/refs", self._refs),
            web.post(f"{repository}/git-upload-pack", self._upload),
            web.post(f"{repository}/git-receive-pack", self._receive),
        ]

    async def _refs(self, request: web.Request) -> web.Response:
        """The references, from which git finds out what to fetch or to push."""
        service = request.query.get("service", "")
        if service not in ("git-upload-pack", "git-receive-pack"):
            raise web.HTTPForbidden(text="Please upgrade your git client.\n")
        caller, repository = self._find(request, writes=service == "git-receive-pack")
        if service == "git-receive-pack":
            self._actor(caller, repository)
            content = b"".join(_advertised(repository))
        else:
            content = await _upload_pack(repository, request, "--http-backend-info-refs")
        return _answer(f"{service}-advertisement", _packet(f"# service={service}\n") + _FLUSH + content)

    async def _upload(self, request: web.Request) -> web.Response:
        _, repository = self._find(request, writes=False)
        return _answer("git-upload-pack-result", await _upload_pack(repository, request))

    async def _receive(self, request: web.Request) -> web.Response:
        """Store the objects, and move each reference that may be moved."""
        caller, repository = self._find(request, writes=True)
        actor = self._actor(caller, repository)
        moves, pack = _moves(await request.read())
        if not moves:
            # git asks once without content, to learn whether it may push, before it sends a large pack.
            return _answer("git-receive-pack-result", b"")
        unpacked = await _git(repository, ("unpack-objects", "-q"), pack) if pack else (0, b"")
        report = [_packet("unpack ok\n" if unpacked[0] == 0 else "unpack failed\n")]
        report += [_packet(self._moved(repository, move, actor, unpacked[0] == 0)) for move in moves]
        text = b"".join(report) + _FLUSH
        parts = (text[start : start + _MOST] for start in range(0, len(text), _MOST))
        return _answer("git-receive-pack-result", b"".join(_packet(b"\x01" + part) for part in parts) + _FLUSH)

    def _moved(self, repository: Repository, move: "_Move", actor: Actor, unpacked: bool) -> str:
        """Move a reference; the line that git shows its user."""
        try:
            if not unpacked:
                raise Invalid("the objects cannot be read")
            self._move(repository, move, actor)
        except ApiError as refusal:
            return f"ng {move.ref} {' '.join(refusal.message.split())}\n"
        return f"ok {move.ref}\n"

    def _move(self, repository: Repository, move: "_Move", actor: Actor) -> None:
        _, _, name = move.ref.partition("/")
        kind, _, short = name.partition("/")
        if kind not in ("heads", "tags"):
            raise Invalid("deny updating a hidden ref")
        verbs = self._github.refs if kind == "heads" else self._github.tags
        if (repository.git.ref(name) or _NONE) != move.before:
            raise Invalid("fetch first")
        if move.after == _NONE:
            verbs.delete(repository, short, actor=actor)
        elif move.before == _NONE:
            verbs.create(repository, short, move.after, actor=actor)
        else:
            # Without `--force` git itself refuses to lose commits.
            verbs.update(repository, short, move.after, actor=actor, force=True)

    def _find(self, request: web.Request, *, writes: bool) -> tuple[Caller, Repository]:
        """Who asks, and for what. Raises 401, with which git asks for a password, and 404."""
        try:
            caller = self._tokens.caller(_bearer(request.headers.get("Authorization")))
        except ApiError as refusal:
            raise _unauthorized() from refusal
        named = f"{request.match_info['owner']}/{request.match_info['repo']}".lower()
        found = self._github.state.repositories.get(named)
        hidden = found is None or not visible(self._github, caller, found)
        if caller.actor is None and (writes or hidden):
            raise _unauthorized()
        if found is None or hidden:
            raise web.HTTPNotFound(text="Repository not found.\n")
        return caller, found

    def _actor(self, caller: Caller, repository: Repository) -> Actor:
        """Who pushes. Raises 403."""
        assert caller.actor is not None
        try:
            self._github.refs.check_access(repository, caller.actor)
        except ApiError as refusal:
            login = caller.actor.user.login
            raise web.HTTPForbidden(text=f"Permission to {repository.full_name}.git denied to {login}.\n") from refusal
        return caller.actor


@dataclass(frozen=True, slots=True)
class _Move:
    """One line of a push: a reference with its tip before and after, which are zeros for none."""

    before: str
    after: str
    ref: str


def _unauthorized() -> web.HTTPUnauthorized:
    return web.HTTPUnauthorized(headers={"WWW-Authenticate": 'Basic realm="GitHub"'}, text="Invalid credentials.\n")


def _bearer(authorization: str | None) -> str | None:
    """The header of the API for git's: whatever the user's name, the password is the token."""
    if authorization is None or not authorization.lower().startswith("basic "):
        return authorization
    try:
        text = base64.b64decode(authorization[len("basic ") :], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return "Bearer unreadable"
    name, _, password = text.partition(":")
    return f"Bearer {password if password not in ('', 'x-oauth-basic') else name}"


def _packet(content: str | bytes) -> bytes:
    data = content.encode() if isinstance(content, str) else content
    return f"{len(data) + 4:04x}".encode() + data


def _advertised(repository: Repository) -> Iterator[bytes]:
    """Every branch and tag; the first line has what this server can do."""
    git = repository.git
    tips = [(git.ref(name), f"refs/{name}") for name in git.refs() if name.startswith(("heads/", "tags/"))]
    for place, (sha, name) in enumerate(tips or [(_NONE, "capabilities^{}")]):
        yield _packet(f"{sha} {name}\0{_CAPABILITIES}\n" if place == 0 else f"{sha} {name}\n")
    yield _FLUSH


def _moves(content: bytes) -> tuple[list[_Move], bytes]:
    """The lines of a push, and its pack."""
    moves: list[_Move] = []
    place = 0
    while (size := _size(content, place)) >= 4:
        line = content[place + 4 : place + size].split(b"\0")[0].decode(errors="replace").strip()
        place += size
        parts = line.split(" ", 2)
        if len(parts) != 3:
            raise web.HTTPBadRequest(text="This is no push.\n")
        moves.append(_Move(*parts))
    return moves, content[place + 4 :]


def _size(content: bytes, place: int) -> int:
    try:
        return int(content[place : place + 4] or b"0", 16)
    except ValueError as error:
        raise web.HTTPBadRequest(text="This is no push.\n") from error


async def _upload_pack(repository: Repository, request: web.Request, *options: str) -> bytes:
    """What git's own server answers."""
    repository.git.point_head(repository.default_branch)
    settings = ("-c", "uploadpack.allowAnySHA1InWant=true", "-c", "transfer.hideRefs=refs/namespaces")
    environ = {"GIT_PROTOCOL": request.headers.get("Git-Protocol", "")}
    if (namespace := repository.git.namespace) is not None:
        environ["GIT_NAMESPACE"] = namespace
    command = (*settings, "upload-pack", "--stateless-rpc", *options, repository.git.path)
    return (await _git(repository, command, await request.read(), environ))[1]


async def _git(
    repository: Repository, command: tuple[str, ...], content: bytes, environ: Mapping[str, str] | None = None
) -> tuple[int, bytes]:
    """Run git in the repository; its exit code and output."""
    environ = {**os.environ, **(environ or {})}
    process = await create_subprocess_exec(
        "git", *command, cwd=repository.git.path, env=environ, stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    output, _ = await process.communicate(content)
    assert process.returncode is not None
    return process.returncode, output


def _answer(kind: str, content: bytes) -> web.Response:
    headers = {"Cache-Control": "no-cache, max-age=0, must-revalidate"}
    return web.Response(body=content, content_type=f"application/x-{kind}", headers=headers)
