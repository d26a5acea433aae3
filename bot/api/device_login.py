"""`/api/v1/login`: log a person in from a command line by GitHub's device flow, and log out.

GitHub's token never leaves IMQ: the caller gets a token of IMQ, bound to the person by GitHub's id. IMQ itself began
the flow, with its own client id, so no caller can put in a token that GitHub gave to another App.

Anyone may send a code to somebody else and ask them to type it (device code phishing). The token therefore reads and
queues, controls queues only if that was asked for, and ends after 30 days; GitHub's page names the App.

The id is GitHub's device code and what was asked for, encrypted with a key made of the App's private key. So every
process of an IMQ can finish a login, nothing is stored for strangers, and an id that IMQ did not make is none.
"""

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import structlog
from aiohttp import web
from cachetools import LRUCache
from cryptography.fernet import Fernet, InvalidToken
from pydantic import AwareDatetime, BaseModel, Field, SecretStr

from bot.api.api_errors import ApiError
from bot.api.auth import caller
from bot.api.idempotent import finish_call
from bot.api.payload import AnswerModel, EmptyBody, Payload, payload, receive
from bot.api.permissions import Access
from bot.api.routes import Caller, Routes, route
from bot.gateway.device_flow import DeviceFlow, DeviceFlowRefused, LoginRefused, Wait
from bot.http.client_address import ClientAddresses
from bot.settings.private_key import derive_key
from queue_engine.core.timing.clock import Clock
from queue_engine.core.timing.rate_limit import KeyLimits
from queue_engine.domain.facts import Actor, Permission
from queue_engine.effects.context import Engine
from queue_engine.store import Transaction
from queue_engine.store.action_records import ActionKind
from queue_engine.store.tokens import TokenPolicy, name_of_login

_PURPOSE = b"imq logins by device code"
_SHORTEST, _LONGEST = timedelta(seconds=1), timedelta(minutes=15)

BEGUN_PER_ADDRESS, BEGUN_PER_MINUTE = 10, 30
"""Logins a minute that one address begins, and that all of them begin."""
ASKED_PER_ADDRESS, ASKED_PER_MINUTE = 120, 600
"""Questions a minute about begun logins; a command line asks twelve times."""
SENT_PER_ADDRESS, SENT_PER_HOUR = 240, 900
"""Questions an hour that IMQ passes to GitHub, which takes 2,000 of an App, the logins at pages among them."""
_MAX_PACED = 1_000
"""Logins whose pace one process remembers; GitHub itself answers `slow_down` for others."""
_MINUTE, _HOUR = timedelta(minutes=1), timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class DeviceLogin:
    """A login under way. `access` is what its token may do."""

    device_code: SecretStr
    access: Permission
    ends: datetime
    interval: timedelta

    @property
    def fingerprint(self) -> str:
        """Return the end of its token's name, which reveals nothing of the code."""
        return hashlib.sha256(self.device_code.get_secret_value().encode()).hexdigest()[:12]


class LoginIds:
    """Makes and reads the opaque ids of logins."""

    def __init__(self, private_key: SecretStr) -> None:
        """`private_key` is the App's, as PEM."""
        self._cipher = Fernet(derive_key(private_key.get_secret_value(), _PURPOSE))

    def seal(self, login: DeviceLogin) -> str:
        """Return the id of a login."""
        content = {
            "code": login.device_code.get_secret_value(),
            "access": login.access.value,
            "ends": login.ends.isoformat(),
            "interval": login.interval.total_seconds(),
        }
        return self._cipher.encrypt(json.dumps(content).encode()).decode()

    def open(self, sealed: str) -> DeviceLogin | None:
        """Return the login of an id; None for an id that this IMQ did not make."""
        try:
            read = json.loads(self._cipher.decrypt(sealed))
        except (InvalidToken, ValueError):
            return None
        return DeviceLogin(
            SecretStr(read["code"]),
            Permission(read["access"]),
            datetime.fromisoformat(read["ends"]).astimezone(UTC),
            timedelta(seconds=read["interval"]),
        )


class LoginLimits:
    """Limits what strangers may cost: logins begun, and questions about them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun = KeyLimits((BEGUN_PER_ADDRESS, _MINUTE), together=[(BEGUN_PER_MINUTE, _MINUTE)])
        self._asked = KeyLimits((ASKED_PER_ADDRESS, _MINUTE), together=[(ASKED_PER_MINUTE, _MINUTE)])
        self._sent = KeyLimits((SENT_PER_ADDRESS, _HOUR), together=[(SENT_PER_HOUR, _HOUR)])
        self._paces: LRUCache[str, tuple[datetime, timedelta]] = LRUCache(_MAX_PACED)

    def begin(self, address: str | None) -> None:
        """Count a login that this address begins. Raises ApiError 429.

        The address is None behind a proxy that does not name its client, here and below.
        """
        self._take(self._begun, address)

    def ask(self, address: str | None) -> None:
        """Count a question of this address. Raises ApiError 429."""
        self._take(self._asked, address)

    def send(self, address: str | None) -> None:
        """Count a question that IMQ passes to GitHub. Raises ApiError 429."""
        self._take(self._sent, address)

    def interval(self, login: DeviceLogin) -> timedelta:
        """Return how far apart the questions about a login must be."""
        known = self._paces.get(login.fingerprint)
        return login.interval if known is None else known[1]

    def too_soon(self, login: DeviceLogin) -> bool:
        """Whether GitHub was asked about this login less than its interval ago; if not, note that it is asked now."""
        now, interval = self._clock.now(), self.interval(login)
        known = self._paces.get(login.fingerprint)
        if known is not None and timedelta(0) <= now - known[0] < interval:
            return True
        self._paces[login.fingerprint] = (now, interval)
        return False

    def slow_down(self, login: DeviceLogin, interval: timedelta) -> timedelta:
        """Take GitHub's new interval, and return it."""
        longer = within_bounds(max(interval, self.interval(login)))
        self._paces[login.fingerprint] = (self._clock.now(), longer)
        return longer

    def _take(self, limits: KeyLimits, address: str | None) -> None:
        if (wait := limits.take(address, self._clock.now())) > timedelta(0):
            raise ApiError(429, "too many logins are under way; try again later", retry_after=wait)


def within_bounds(interval: timedelta) -> timedelta:
    """Return an interval that neither hurries nor stops a caller."""
    return min(max(interval, _SHORTEST), _LONGEST)


VALID_FOR = timedelta(days=30)
"""How long the token of a login is valid."""

MOST_LOGINS = 10
"""Tokens of logins that a person may have; the next login revokes the one that was used longest ago."""

_log = structlog.get_logger("imq.api")

_DISABLED = (
    "The device flow is disabled for IMQ's GitHub App. Its owner enables it on GitHub: the App's settings page, "
    "General, Enable Device Flow. Until then an operator makes a token with `imq token create`."
)
_ENDED = {
    "denied": "The login was cancelled on GitHub's page.",
    "expired": "The code has expired. Begin another login.",
    "used": "This login has ended, or GitHub does not know its code. Begin another one.",
}


class LoginCall(Payload):
    """Parameters of a login: what its token may do."""

    access: Literal["write", "maintain"] = "write"


class LoginTokenCall(Payload):
    """Parameters of a question about a login: the id that its beginning returned."""

    id: SecretStr = Field(max_length=2000)


class LoginAnswer(AnswerModel):
    """A login that waits for its person, who types the code on GitHub's page."""

    id: str
    user_code: str
    verification_uri: str
    expires_in: int
    interval: int
    access: Literal["write", "maintain"]


class PendingAnswer(AnswerModel):
    """A login whose code the person has not typed; ask again after `interval` seconds."""

    interval: int


class LoginTokenAnswer(AnswerModel):
    """A login that is done, with its token, which is shown once."""

    token: str
    name: str
    login: str
    access: Literal["write", "maintain"]
    expires_at: AwareDatetime


@dataclass(frozen=True, slots=True)
class Logins:
    """What the routes need beside the engine."""

    flow: DeviceFlow
    ids: LoginIds
    limits: LoginLimits
    addresses: ClientAddresses


class LoginRoutes(Routes):
    """Routes that log in, which take no token, and the one that logs out."""

    def __init__(self, engine: Engine, access: Access, logins: Logins | None) -> None:
        """`logins` is None where the routes are described, and not served."""
        super().__init__(engine, access)
        self._logins = logins

    @route("POST", "/login/device", caller=Caller.ANYONE, body=LoginCall, answers={200: LoginAnswer}, refusals=(502,))
    async def begin_login(self, request: web.Request) -> web.Response:
        """Begins a login by GitHub's device flow.

        Answer 200 with the code to type; 409: the App's owner has not enabled the flow; 429; 502, 503.
        """
        logins = self._served()
        await receive(request)
        call = payload(request, LoginCall)
        logins.limits.begin(logins.addresses.share(request))
        try:
            begun = await logins.flow.begin()
        except DeviceFlowRefused:
            raise ApiError(409, _DISABLED, reason="device_flow_disabled") from None
        lasts = within_bounds(timedelta(seconds=begun.expires_in))
        interval = within_bounds(timedelta(seconds=begun.interval))
        ends = self._engine.clock.now() + lasts
        login = DeviceLogin(begun.device_code, Permission(call.access), ends, interval)
        _log.info("login_begun", fingerprint=login.fingerprint, access=call.access, remote=logins.addresses.of(request))
        answer = LoginAnswer(
            id=logins.ids.seal(login),
            user_code=begun.user_code,
            verification_uri=begun.verification_uri,
            expires_in=int(lasts.total_seconds()),
            interval=int(interval.total_seconds()),
            access=call.access,
        )
        return _json(answer, 200)

    @route(
        "POST",
        "/login/device/token",
        caller=Caller.ANYONE,
        body=LoginTokenCall,
        answers={200: LoginTokenAnswer, 202: PendingAnswer},
        refusals=(410, 502),
    )
    async def finish_login(self, request: web.Request) -> web.Response:
        """Asks whether a login is done, and returns its token once.

        Answer 200 with the token, once; 202: not yet; 404: no such login; 410: it has ended; 429; 502, 503.
        """
        logins = self._served()
        await receive(request)
        call = payload(request, LoginTokenCall)
        share = logins.addresses.share(request)
        logins.limits.ask(share)
        login = logins.ids.open(call.id.get_secret_value())
        if login is None:
            raise ApiError(404, "IMQ began no such login")
        if self._engine.clock.now() >= login.ends:
            raise ApiError(410, _ENDED["expired"], reason="expired")
        if logins.limits.too_soon(login):
            return _pending(logins.limits.interval(login))
        logins.limits.send(share)
        try:
            found = await logins.flow.outcome(login.device_code)
        except LoginRefused as ended:
            raise ApiError(410, _ENDED[ended.reason], reason=ended.reason) from None
        except DeviceFlowRefused:
            raise ApiError(409, _DISABLED, reason="device_flow_disabled") from None
        if isinstance(found, Wait):
            known = logins.limits.interval(login)
            return _pending(known if found.interval is None else logins.limits.slow_down(login, found.interval))
        return await self._logged_in(login, found)

    @route("DELETE", "/login", caller=Caller.LOGIN, body=EmptyBody, answers={204: None})
    async def log_out(self, request: web.Request) -> web.Response:
        """Revokes the token of this call, if a login made it.

        Answer 204: the token is revoked; 403: no login made it.
        """
        token = caller(request)
        if not token.of_login:
            raise ApiError(403, "no login made this token: an operator revokes it with `imq token revoke`")
        async with self._engine.store.transaction() as tx:
            await tx.tokens.revoke(token.name)
            now = self._engine.clock.now()
            await tx.actions.add(ActionKind.TOKEN_REVOKED, token.name, by=token.login, via="api", at=now)
            response = await finish_call(request, tx, None, status=204)
        _log.info("person_logged_out", token=token.name)
        return response

    def _served(self) -> Logins:
        assert self._logins is not None, "the routes are only described"
        return self._logins

    async def _logged_in(self, login: DeviceLogin, person: Actor) -> web.Response:
        """Make the token. Its name is the login's own, so that one login makes one token, in all processes."""
        now = self._engine.clock.now()
        expires_at = now + VALID_FOR
        grant = TokenPolicy(login=person.login, person_id=person.id, access=login.access, expires_at=expires_at)
        name = name_of_login(person.login, login.fingerprint)
        async with self._engine.store.transaction() as tx:
            await tx.tokens.revoke_expired_logins(now)
            await _make_room(tx, person, now)
            secret = await tx.tokens.create(name, grant, now=now)
            if secret is not None:
                described = grant.described()
                created = ActionKind.TOKEN_CREATED
                await tx.actions.add(created, name, by=person.login, via="login", at=now, data=described)
        if secret is None:
            raise ApiError(410, _ENDED["used"], reason="used")
        _log.info("person_logged_in", token=name, login=person.login, person_id=person.id, access=login.access.value)
        answer: dict[str, Any] = {"token": secret, "name": name, "login": person.login, "access": login.access.value}
        return _json(LoginTokenAnswer(**answer, expires_at=expires_at), 200)


async def _make_room(tx: Transaction, person: Actor, now: datetime) -> None:
    """Revoke the tokens of a person's logins that were used longest ago, so that one more fits."""
    tokens = sorted(await tx.tokens.of_logins(person.id), key=lambda each: each.last_used_at or each.created_at)
    for each in tokens[: max(0, len(tokens) - MOST_LOGINS + 1)]:
        await tx.tokens.revoke(each.name)
        await tx.actions.add(ActionKind.TOKEN_REVOKED, each.name, by=person.login, via="login", at=now)


def _pending(interval: timedelta) -> web.Response:
    return _json(PendingAnswer(interval=max(1, round(interval.total_seconds()))), 202)


def _json(answer: BaseModel, status: int) -> web.Response:
    # An answer with a code or a token in it is kept by no cache.
    return web.json_response(answer.model_dump(mode="json"), status=status, headers={"Cache-Control": "no-store"})
