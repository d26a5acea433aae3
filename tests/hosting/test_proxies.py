"""The reverse proxies of the documents before a real bot: they pass webhooks and pages, and hide metrics and health."""

import asyncio
import hashlib
import hmac
import io
import json
import os
import shutil
import signal
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from yarl import URL

from bot.webhooks.receiver import MAX_BODY
from docs.generate import ROOT
from tests.acceptance.world import SECRET, World, a_world
from tests.hosting.platform_files import CADDY, NGINX
from tests.support.documents import read
from tests.support.ports import held_port
from tests.support.real_time import LIMIT

pytestmark = pytest.mark.process

HOST = "imq.example.com"
HIDDEN = ("/metrics", "/healthz", "/readyz", "/metrics/", "//metrics", "/%6detrics", "/static/../metrics")
MAIN = """
{user}
daemon off;
pid {directory}/nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    include {directory}/imq.conf;
}}
"""


@dataclass
class Proxy:
    """A running proxy: its address, and how its certificate is checked."""

    url: str
    tls: ssl.SSLContext | bool


Start = Callable[[int, int, Path], tuple[list[str], dict[str, str], Proxy]]
"""From the bot's port, the proxy's and a directory of its own: the command, its environment, and what it becomes."""


def program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path=ROOT / ".tools")
    return found or pytest.skip(f"no {name}: run .ci/from-debian, or install it")


def nginx(bot: int, port: int, directory: Path) -> tuple[list[str], dict[str, str], Proxy]:
    certificate, key = certified(directory)
    site = read(NGINX).replace("listen 443", f"listen 127.0.0.1:{port}").replace("127.0.0.1:8080", f"127.0.0.1:{bot}")
    site = "".join(line for line in site.splitlines(keepends=True) if "[::]" not in line)
    for name, path in (("fullchain", certificate), ("privkey", key)):
        site = site.replace(f"/etc/letsencrypt/live/{HOST}/{name}.pem", str(path))
    (directory / "imq.conf").write_text(site)
    user = "" if os.geteuid() else "user root;"  # whose directory this is
    (directory / "nginx.conf").write_text(MAIN.format(directory=directory, user=user))
    command = [program("nginx"), "-p", str(directory), "-c", "nginx.conf", "-e", "stderr"]
    return command, {}, Proxy(f"https://127.0.0.1:{port}", ssl.create_default_context(cafile=certificate))


def caddy(bot: int, port: int, directory: Path) -> tuple[list[str], dict[str, str], Proxy]:
    url = f"http://127.0.0.1:{port}"  # with a name it would ask for a certificate
    (directory / "Caddyfile").write_text("{\n\tadmin off\n}\n" + read(CADDY))
    environment = {"IMQ_ADDRESS": url, "IMQ_UPSTREAM": f"127.0.0.1:{bot}", "HOME": str(directory)}
    command = [program("caddy"), "run", "--adapter", "caddyfile", "--config", str(directory / "Caddyfile")]
    return command, environment, Proxy(url, True)


def certified(directory: Path) -> tuple[Path, Path]:
    """A certificate that vouches for itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now - timedelta(hours=1))
    builder = builder.not_valid_after(now + timedelta(hours=1))
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
    certificate, private = directory / "certificate.pem", directory / "key.pem"
    certificate.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate, private


@asynccontextmanager
async def proxied(
    start: Start, world: World, port: int, directory: Path
) -> AsyncIterator[Callable[..., Awaitable[int]]]:
    """Within it the proxy runs; call what it yields with a method, a path and a body for the status."""
    command, environment, proxy = start(world.runner.addresses[0][1], port, directory)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, env=environment, stderr=pipe, cwd=directory)

    async def status(method: str, path: str, body: bytes | None = None) -> int:
        digest = hmac.new(SECRET.encode(), body or b"", hashlib.sha256).hexdigest()
        event = {"X-GitHub-Event": "ping", "X-GitHub-Delivery": f"d{len(body or b'')}"}
        headers = {"X-Hub-Signature-256": f"sha256={digest}", "Content-Type": "application/json", **event}
        data = None if body is None else io.BytesIO(body)
        url = URL(proxy.url + path, encoded=True)
        asked = session.request(method, url, data=data, headers=headers, server_hostname=HOST)
        async with asked as answer:
            return answer.status

    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=proxy.tls)) as session:
            await _until_it_listens(proxy, process)
            yield status
    finally:
        process.send_signal(signal.SIGTERM)
        _, log = await process.communicate()
        assert process.returncode == 0, log.decode()


async def _until_it_listens(proxy: Proxy, process: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(LIMIT):
        while process.returncode is None:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rpartition(":")[2]))
            except OSError:
                await asyncio.sleep(0.02)  # no-sleep-ok: a real process starts in real time
            else:
                writer.close()
                return


def delivery(size: int) -> bytes:
    """A ping of so many bytes."""
    payload = {"zen": "", "hook_id": 1}
    return json.dumps(payload | {"zen": "z" * (size - len(json.dumps(payload)))}).encode()


@pytest.fixture
def port() -> Iterator[int]:
    """The proxy's: neither one says which it got for port 0."""
    with held_port() as port:
        yield port


@pytest.mark.parametrize("start", [nginx, caddy])
async def test_proxy_passes_webhooks_and_pages_and_hides_what_is_for_operators(
    start: Start, port: int, tmp_path: Path
) -> None:
    """GitHub's webhooks of 25 MB arrive; larger bodies are refused, and metrics and health stay inside."""
    directory = tmp_path / "proxy"
    directory.mkdir()
    async with a_world(tmp_path) as world, proxied(start, world, port, directory) as status:
        assert await status("POST", "/webhook", delivery(100)) == 202
        assert await status("POST", "/webhook", delivery(MAX_BODY)) == 202
        assert await status("POST", "/webhook", delivery(MAX_BODY + 1)) == 413
        assert await status("GET", "/api/v1/openapi.json") in {200, 401}
        assert await status("GET", "/queue/status") in {200, 401}
        # A page without a session leads to the login.
        for path in ("/", "/login", "/static/imq.css", "/requests"):
            assert await status("GET", path) == 200, path
        for path in (*HIDDEN, "/webhooks", "/api/v2"):
            assert await status("GET", path) == 404, path
