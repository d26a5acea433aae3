"""`imq doctor` calls the webhook address as GitHub does: each thing that may answer in IMQ's place has a name."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from pydantic import SecretStr

from bot.doctor.webhook_probe import WebhookProbe
from bot.webhooks.receiver import Receiver
from queue_engine.core.timing.clock import SystemClock
from queue_engine.domain.webhooks import WebhookEvent
from tests.support.documents import read
from tests.support.gates import NOW
from tests.support.plain_words import faults
from tests.support.ports import held_port
from tests.test_docs import anchors

SECRET, APP = SecretStr("s3cret-0123456789abcdef"), 7
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Stored:
    """What a receiver stored."""

    def __init__(self) -> None:
        self.events: list[WebhookEvent] = []

    async def store(self, event: WebhookEvent) -> bool:
        self.events.append(event)
        return True


def imq(secret: SecretStr = SECRET, app_id: int = APP, stored: Stored | None = None) -> Handler:
    """The receiver of an IMQ."""
    store = (stored or Stored()).store
    return Receiver(secret=secret, own_app_id=app_id, store=store, clock=SystemClock()).handle


class Host:
    """A machine at the webhook address, with something that answers there."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session
        self.runners: list[web.AppRunner] = []

    async def address(self, handler: Handler, *, certificate: ssl.SSLContext | None = None) -> str:
        """Serve, and return the address."""
        app = web.Application()
        app.router.add_route("*", "/webhook", handler)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=certificate).start()
        self.runners.append(runner)
        scheme = "http" if certificate is None else "https"
        return f"{scheme}://127.0.0.1:{runner.addresses[0][1]}/webhook"

    async def code(self, address: str, *, arrives: bool = False, relay_url: str | None = None) -> str | None:
        """The code of the finding, whose texts are checked as well."""
        finding = await WebhookProbe(self.session, SECRET, APP, relay_url).find(address, arrives=arrives)
        if finding is None:
            return None
        page, _, anchor = finding.link.partition("#")
        assert anchor in anchors(read(page))
        assert not [fault for text in (finding.finding, finding.impact, finding.remedy) for fault in faults(text)]
        return finding.code


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    async with aiohttp.ClientSession() as session:
        host = Host(session)
        yield host
        for runner in host.runners:
            await runner.cleanup()


async def test_imq_that_answers_itself_is_no_finding_and_stores_nothing(host: Host) -> None:
    """The ping is signed, and its id differs from GitHub's."""
    stored = Stored()
    assert await host.code(await host.address(imq(stored=stored))) is None
    assert stored.events == []


async def test_proxy_before_imq_that_is_not_trusted_is_named(host: Host) -> None:
    """The probe comes the way of GitHub's webhooks, so that IMQ itself says who forwards it."""
    receive = imq()

    async def forward(request: web.Request) -> web.StreamResponse:
        return await receive(request.clone(headers={**request.headers, "X-Forwarded-For": "203.0.113.9"}))

    assert await host.code(await host.address(forward)) == "proxy_untrusted"


async def test_imq_of_an_earlier_release_is_no_finding(host: Host) -> None:
    """It ignores the ping."""

    async def ignore(_request: web.Request) -> web.Response:
        return web.json_response({"result": "ignored", "why": "ping"}, status=202)

    assert await host.code(await host.address(ignore)) is None


@pytest.mark.parametrize(
    ("handler", "code"),
    [
        (imq(secret=SecretStr("another-0123456789abcdef")), "webhook_secret_differs"),
        (imq(app_id=8), "webhook_answered_by_another_imq"),
    ],
)
async def test_another_imq_at_the_address_is_named(host: Host, handler: Handler, code: str) -> None:
    """With another secret, or for another App."""
    assert await host.code(await host.address(handler), arrives=True) == code


@pytest.mark.parametrize(
    ("status", "headers", "code"),
    [
        (301, {"Location": "https://imq.example.com/webhook"}, "webhook_redirected"),
        (308, {"Location": "/webhook/"}, "webhook_redirected"),
        (200, {}, "webhook_answered_by_another_server"),
        (401, {"WWW-Authenticate": "Basic"}, "webhook_answered_by_another_server"),
        (403, {}, "webhook_answered_by_another_server"),
        (404, {"Server": "nginx"}, "webhook_answered_by_another_server"),
        (502, {}, "webhook_answered_by_another_server"),
    ],
)
async def test_proxy_that_answers_for_imq_is_named(host: Host, status: int, headers: dict[str, str], code: str) -> None:
    """A redirect, a login page, a wrong path, or a proxy without IMQ behind it."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=status, headers=headers, text="<html>Sign in</html>")

    assert await host.code(await host.address(answer), arrives=True) == code


async def test_address_that_cannot_be_reached_is_named(host: Host) -> None:
    """By its name, its port, or its certificate; if GitHub's deliveries arrive, only this machine cannot connect."""
    with held_port() as closed:
        for address, code in (
            ("https://imq.invalid/webhook", "webhook_name_unknown"),
            (f"http://127.0.0.1:{closed}/webhook", "webhook_unreachable"),
        ):
            assert await host.code(address) == code
            assert await host.code(address, arrives=True) is None


async def test_certificate_without_a_known_issuer_is_named(host: Host, tmp_path: Path) -> None:
    """GitHub refuses it, too."""
    address = await host.address(imq(), certificate=_self_signed(tmp_path))
    assert await host.code(address) == "webhook_certificate_refused"


@pytest.mark.process
async def test_server_that_never_answers_costs_ten_seconds_at_most(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command ends."""
    monkeypatch.setattr("bot.doctor.webhook_probe._LIMIT", timedelta(milliseconds=50))

    over = asyncio.Event()

    async def hang(_request: web.Request) -> web.StreamResponse:
        await over.wait()
        return web.Response()

    assert await host.code(await host.address(hang)) == "webhook_unreachable"
    over.set()


async def test_relay_is_examined_instead_of_the_address(host: Host) -> None:
    """A listener more takes no event from the others; a page is no relay."""

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        return response

    async def page(_request: web.Request) -> web.Response:
        return web.Response(text="<html>", content_type="text/html")

    unused = "https://imq.invalid/webhook"
    assert await host.code(unused, relay_url=await host.address(stream)) is None
    assert await host.code(unused, relay_url=await host.address(page)) == "relay_answers_wrongly"


def _self_signed(folder: Path) -> ssl.SSLContext:
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "imq")])
    now = NOW
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1))
    signed = builder.sign(key, SHA256())
    pem = folder / "server.pem"
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    pem.write_bytes(private + signed.public_bytes(Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    return context
