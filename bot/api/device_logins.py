"""Represent a login that a command line began: its opaque id, and how often callers may ask about it.

The id is GitHub's device code and what was asked for, encrypted with a key made of the App's private key. So every
process of an IMQ can finish a login, nothing is stored for strangers, and an id that IMQ did not make is none.
"""

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cachetools import LRUCache
from cryptography.fernet import Fernet, InvalidToken
from pydantic import SecretStr

from bot.api.errors import ApiError
from bot.settings.private_key import derive_key
from queue_engine.core.timing.clock import Clock
from queue_engine.core.timing.rate_limit import RateLimit
from queue_engine.domain.facts import Permission

_PURPOSE = b"imq logins by device code"
_SHORTEST, _LONGEST = timedelta(seconds=1), timedelta(minutes=15)

BEGUN_PER_ADDRESS, BEGUN_PER_MINUTE = 10, 30
"""Logins a minute that one address begins, and that all of them begin."""
ASKED_PER_ADDRESS, ASKED_PER_MINUTE = 120, 600
"""Questions a minute about begun logins; a command line asks twelve times."""
SENT_PER_ADDRESS, SENT_PER_HOUR = 240, 900
"""Questions an hour that IMQ passes to GitHub, which takes 2,000 of an App, the logins at pages among them."""
_MAX_ADDRESSES = 1_000
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
        self._begun = _AddressLimit(BEGUN_PER_ADDRESS, BEGUN_PER_MINUTE, _MINUTE)
        self._asked = _AddressLimit(ASKED_PER_ADDRESS, ASKED_PER_MINUTE, _MINUTE)
        self._sent = _AddressLimit(SENT_PER_ADDRESS, SENT_PER_HOUR, _HOUR)
        self._paces: LRUCache[str, tuple[datetime, timedelta]] = LRUCache(_MAX_PACED)

    def begin(self, address: str | None) -> None:
        """Count a login that this address begins. Raises ApiError 429."""
        self._begun.take(address, self._clock.now())

    def ask(self, address: str | None) -> None:
        """Count a question of this address. Raises ApiError 429."""
        self._asked.take(address, self._clock.now())

    def send(self, address: str | None) -> None:
        """Count a question that IMQ passes to GitHub. Raises ApiError 429."""
        self._sent.take(address, self._clock.now())

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


class _AddressLimit:
    """At most so many within a time for one address, and for all together."""

    def __init__(self, each: int, together: int, span: timedelta) -> None:
        self._each, self._span = each, span
        self._together = RateLimit(together, span)
        self._addresses: LRUCache[str, RateLimit] = LRUCache(_MAX_ADDRESSES)

    def take(self, address: str | None, now: datetime) -> None:
        """Count one. The address is None behind a proxy that does not name its client. Raises ApiError 429."""
        limits = [self._together]
        if address is not None:
            limits.append(self._addresses.setdefault(address, RateLimit(self._each, self._span)))
        if (wait := max(each.wait(now) for each in limits)) > timedelta(0):
            raise ApiError(429, "too many logins are under way; try again later", retry_after=wait)
        for each in limits:
            each.take(now)


def within_bounds(interval: timedelta) -> timedelta:
    """Return an interval that neither hurries nor stops a caller."""
    return min(max(interval, _SHORTEST), _LONGEST)
