"""Logins at devices without a browser: their codes, and who authorized the app.

Source: GitHub's pages "Generating a user access token for a GitHub App" and "Authorizing OAuth apps" (device flow), and
cli/oauth's `device_flow.go`. `behaviour` has switches for where they differ.
"""

from datetime import timedelta

from github_emulator.events.context import Context
from github_emulator.state import App, DeviceCode, User

GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_LETTERS = "BCDFGHJKLMNPQRSTVWXZ0123456789"  # pragma: allowlist secret
LIFE = timedelta(seconds=900)
INTERVAL = 5
_SLOWER = 5


class DeviceCodes:
    """Begins logins, lets people authorize them, and gives each token once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._random = context.randomness.of("device codes")
        self.interval = INTERVAL
        """Seconds between two questions of a device; processes in real time are quicker with less."""

    def begin(self, app: App) -> DeviceCode:
        """New codes for a device."""
        typed = "".join(self._random.choices(_LETTERS, k=8))
        code = f"{self._random.getrandbits(160):040x}"
        made = DeviceCode(code, f"{typed[:4]}-{typed[4:]}", app, self._context.clock.now(), self.interval)
        self._context.state.device_codes[code] = made
        return made

    def typed(self, user_code: str) -> DeviceCode | None:
        """The login whose code a person typed; None for an unknown, expired or decided one."""
        wanted = "".join(each for each in user_code.upper() if each.isalnum())
        for each in self._context.state.device_codes.values():
            if each.user_code.replace("-", "") == wanted and not (self._over(each) or each.user or each.denied):
                return each
        return None

    def decide(self, code: DeviceCode, user: User | None) -> None:
        """Authorize the app as this person; None cancels."""
        code.user, code.denied = user, user is None

    def outcome(self, app: App, device_code: str) -> User | dict[str, object]:
        """Who authorized the app, once; or the error to answer with."""
        found, now = self._context.state.device_codes.get(device_code), self._context.clock.now()
        if found is None or found.app is not app:
            return {"error": "incorrect_device_code"}
        if self._over(found):
            return {"error": self._context.behaviour.expired_device_code}
        early = found.asked_at is not None and now - found.asked_at < timedelta(seconds=found.interval)
        found.asked_at = now
        if early:
            found.interval += _SLOWER
            extra = {"interval": found.interval} if self._context.behaviour.slow_down_has_interval else {}
            return {"error": "slow_down", **extra}
        if found.denied:
            return {"error": "access_denied"}
        if found.user is None:
            return {"error": "authorization_pending"}
        del self._context.state.device_codes[device_code]
        return found.user

    def _over(self, code: DeviceCode) -> bool:
        return self._context.clock.now() - code.created_at >= LIFE
