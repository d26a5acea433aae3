"""`POST /webhook`: verify, normalize and store a delivery, and only then answer it."""

import hashlib
import hmac
import json
import re
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

import structlog
from aiohttp import web
from pydantic import SecretStr

from bot.http.client_address import ClientAddresses, UntrustedProxy
from bot.http.form import MAX_TIME, Refused, read_body
from bot.logs.configure import LogThrottle
from bot.webhooks.normalize import MalformedPayload, normalize, why_ignored
from queue_engine.core.concurrency.wakeup import Wakeup
from queue_engine.core.database.outage import fault_of
from queue_engine.core.observability import trace
from queue_engine.core.observability.progress import Meter, NullMeter
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.webhooks import WebhookEvent

MAX_BODY = 25 * 1024 * 1024
"""Bytes. GitHub drops deliveries above 25 MB itself ("Webhook events and payloads")."""

PROBE = "imq-doctor-"
"""How the delivery ids of `imq doctor` begin, which calls the address as GitHub does."""

_EVENT = re.compile(r"[a-z0-9_]{1,64}")
_DELIVERY = re.compile(r"[A-Za-z0-9-]{1,64}")
_SIGNATURE = re.compile(r"sha256=([0-9a-f]{64})")
_JSON, _FORM = "application/json", "application/x-www-form-urlencoded"

log = structlog.get_logger(__name__)

Store = Callable[[WebhookEvent], Awaitable[bool]]
"""Stores a webhook event. Returns False if this delivery was known."""


class Receiver:
    """Handles webhooks. `own_app_id` identifies IMQ's own check runs, `read_limit` is how long a sender may take."""

    def __init__(
        self,
        *,
        secret: SecretStr,
        own_app_id: int,
        store: Store,
        clock: Clock,
        read_limit: timedelta = MAX_TIME,
        meter: Meter | None = None,
        proxy: UntrustedProxy | None = None,
    ) -> None:
        if not secret.get_secret_value():
            raise ValueError("a webhook secret is needed: without one anybody could speak for GitHub")
        self._secret = secret
        self._own_app_id = own_app_id
        self._store = store
        self._read_limit = read_limit
        self._log_throttle = LogThrottle(clock)
        self._meter = meter or NullMeter()
        self._proxy = proxy or UntrustedProxy(ClientAddresses(()))

    async def handle(self, request: web.Request) -> web.Response:
        """Answer 202: stored, known or ignored; 400, 401, 408, 413, 415: refused; 503: not stored, redeliver it."""
        try:
            # The headers are checked before the body is read.
            signature = _signature(request)
            event, delivery = _event_and_delivery(request)
            _check_content_type(request)
            body = await read_body(request, "delivery", MAX_BODY, self._read_limit)
            self._verify(signature, body)
            self._proxy.notice(request)
        except Refused as refused:
            if (repeats := self._log_throttle.count(refused.sentence)) is not None:
                log.warning("delivery refused", status=refused.status, why=refused.sentence, repeats=repeats)
            return self._refusal(refused)
        # After verification: other senders must not write into the trace of a delivery.
        with structlog.contextvars.bound_contextvars(delivery=delivery), trace.of_delivery(delivery):
            try:
                return await self._take(event, delivery, request.content_type, body)
            except Refused as refused:
                log.warning("delivery refused", status=refused.status, why=refused.sentence)
                return self._refusal(refused)

    async def _take(self, event_name: str, delivery: str, content_type: str, body: bytes) -> web.Response:
        payload = _payload(content_type, body)
        if event_name == "ping" and delivery.startswith(PROBE):
            answer = {"result": "probed", "app": self._own_app_id, "untrusted_proxy": self._proxy.address}
            return web.json_response(answer, status=202)
        try:
            webhook = normalize(event_name, delivery, payload, own_app_id=self._own_app_id)
        except MalformedPayload as error:
            raise Refused(400, str(error)) from None
        if webhook is None:
            return _accepted("ignored", why=why_ignored(event_name, payload))
        try:
            new = await self._store(webhook)
        except Exception as error:
            log.exception("delivery not stored", kind=webhook.kind)
            fault = fault_of(error)
            why = "" if fault is None else f" {fault.sentence}"
            return self._refusal(Refused(503, f"the delivery could not be stored; redeliver it.{why}"))
        subject = _subject(webhook, payload)
        log.debug("delivery stored" if new else "delivery known", kind=webhook.kind, **subject)
        return _accepted("stored" if new else "known")

    def _refusal(self, refused: Refused) -> web.Response:
        self._meter.count("deliveries_refused", status=str(refused.status))
        return web.json_response({"error": refused.sentence}, status=refused.status)

    def _verify(self, signature: str, body: bytes) -> None:
        expected = hmac.new(self._secret.get_secret_value().encode(), body, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(signature, expected):
            raise Refused(401, "the signature does not match the webhook secret")


def _signature(request: web.Request) -> str:
    """Return the signature's digits. Only SHA-256 counts, not the older SHA-1 header."""
    given = request.headers.getall("X-Hub-Signature-256", [])
    if not given:
        raise Refused(401, "the X-Hub-Signature-256 header is missing: set the App's webhook secret")
    signature = _SIGNATURE.fullmatch(given[0])
    if len(given) > 1 or signature is None:
        raise Refused(401, "the X-Hub-Signature-256 header is no signature")
    return signature[1]


def _event_and_delivery(request: web.Request) -> tuple[str, str]:
    """Return both headers, each given once: a proxy might use another one of two."""
    event = _only(request, "X-GitHub-Event")
    if not _EVENT.fullmatch(event):
        raise Refused(400, "the X-GitHub-Event header is missing or no event's name")
    delivery = _only(request, "X-GitHub-Delivery")
    if not _DELIVERY.fullmatch(delivery):
        raise Refused(400, "the X-GitHub-Delivery header is missing or no delivery's id")
    return event, delivery


def _only(request: web.Request, name: str) -> str:
    given = request.headers.getall(name, [""])
    if len(given) > 1:
        raise Refused(400, f"the {name} header is given more than once")
    return given[0]


def _check_content_type(request: web.Request) -> None:
    if request.content_type not in (_JSON, _FORM):
        raise Refused(400, f"the content type must be {_JSON} or {_FORM}")


def _payload(content_type: str, body: bytes) -> dict[str, Any]:
    """Parse the payload, as JSON or in a form's field `payload`: GitHub lets the operator choose."""
    try:
        text = body.decode()
        if content_type == _FORM:
            text = parse_qs(text, strict_parsing=True)["payload"][0]
        payload = json.loads(text)
    except (ValueError, KeyError, RecursionError):
        raise Refused(400, "the body is not the JSON of a delivery") from None
    if not isinstance(payload, dict):
        raise Refused(400, "the body is JSON, but not an object")
    return payload


def _subject(webhook: WebhookEvent, payload: dict[str, Any]) -> dict[str, Any]:
    """Return what the delivery is about, as far as it says: repository, pull request and head, or branch."""
    pull = payload.get("pull_request")
    head = pull.get("head") if isinstance(pull, dict) else None
    named = webhook.model_dump(include={"number", "branch", "head_sha", "action"}, exclude_none=True)
    sha = named.pop("head_sha", None) or (head.get("sha") if isinstance(head, dict) else None)
    repository = None if webhook.repository is None else webhook.repository.full_name
    return named | {name: value for name, value in (("repository", repository), ("sha", sha)) if value is not None}


def _accepted(result: str, **more: str) -> web.Response:
    return web.json_response({"result": result, **more}, status=202)


TOPIC = "missed deliveries"
"""The topic that wakes the loop of missed deliveries."""


class MissedDeliveries:
    """Remembers that deliveries may have been missed, until a job that looks for them is stored."""

    def __init__(
        self,
        receive: Callable[[WebhookEvent], Awaitable[bool]],
        schedule: Callable[[], Awaitable[None]],
        wakeup: Wakeup,
    ) -> None:
        """`receive` stores a delivery; `schedule` stores the job, once the database is up again."""
        self._receive = receive
        self._schedule = schedule
        self._wakeup = wakeup
        self._missed = False

    async def receive(self, webhook_event: WebhookEvent) -> bool:
        """Store a delivery; remember it as missed if that fails. Raises errors of `receive`."""
        try:
            return await self._receive(webhook_event)
        except Exception:
            self.note()
            raise

    def note(self) -> None:
        """Remember that deliveries may have been missed."""
        self._missed = True
        self._wakeup.notify(TOPIC)

    async def run_due(self) -> bool:
        """Store the job if deliveries may have been missed; return whether. Raises errors of the database."""
        if not self._missed:
            return False
        self._missed = False
        try:
            await self._schedule()
        except Exception:
            self._missed = True
            raise
        return True

    async def next_due(self) -> datetime | None:
        """Return None: nothing becomes due by time."""
        return None
