"""Codes with which an App learns who a person is, by the web application flow.

Sources: GitHub's pages "Generating a user access token for a GitHub App" and "Authorizing OAuth apps"; its changelog of
2025-07-14 (PKCE; better-auth #6276, microsoft/vscode #264795). NixOS/org #245: a private App is for the people of the
organization that owns it only.
"""

import base64
import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta

from yarl import URL

from github_emulator.events.context import Context
from github_emulator.state import App, User

_CODE_LIFE = timedelta(minutes=10)
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]", "::1")


@dataclass(frozen=True)
class UserCode:
    """A code that stands for a person's consent, until it is used or ten minutes old."""

    app: App
    user: User
    redirect_uri: str
    challenge: str | None
    created_at: datetime


class CodeError(Exception):
    """A refusal of the token endpoint: GitHub's `error` and its description."""

    def __init__(self, error: str, description: str) -> None:
        super().__init__(description)
        self.error, self.description = error, description


class UserAuthorizations:
    """Gives out codes, and takes them back."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._random = context.randomness.of("user authorizations")
        self._codes: dict[str, UserCode] = {}

    def app(self, client_id: str) -> App | None:
        """The App with this client id."""
        return next((app for app in self._context.state.apps.values() if app.client_id == client_id), None)

    def admits(self, app: App, user: User) -> bool:
        """Whether the person may authorize the App: a private one only serves its owner's people."""
        if app.public or user is app.owner:
            return True
        own = (each for each in self._context.state.repositories.values() if each.owner is app.owner)
        return any(user.login in repository.collaborators for repository in own)

    def callback(self, app: App, redirect_uri: str | None) -> str | None:
        """Where a person is sent back: an address of the App's settings, by default the first; None for another one.

        The port of a loopback address is free (github/docs #13651, git-credential-manager #1286).
        """
        if redirect_uri is None:
            return app.callback_urls[0] if app.callback_urls else None
        known = redirect_uri in app.callback_urls or _portless(redirect_uri) in map(_portless, app.callback_urls)
        return redirect_uri if known else None

    def grant(self, app: App, user: User, redirect_uri: str, challenge: str | None) -> str:
        """The code of a person who said yes."""
        code = f"{self._random.getrandbits(80):020x}"
        self._codes[code] = UserCode(app, user, redirect_uri, challenge, self._context.clock.now())
        return code

    def redeem(self, app: App, code: str, redirect_uri: str | None, verifier: str | None) -> User:
        """The person for whom the code stands, once. Raises CodeError in GitHub's words.

        No source quotes the answer to a wrong verifier; the words are those for a wrong code.
        """
        found = self._codes.pop(code, None)
        now = self._context.clock.now()
        if found is None or found.app is not app or now - found.created_at >= _CODE_LIFE:
            raise _bad_code()
        if redirect_uri is not None and redirect_uri != found.redirect_uri:
            raise CodeError(
                "redirect_uri_mismatch", "The redirect_uri MUST match the registered callback URL for this application."
            )
        if found.challenge is not None and challenge_of(verifier or "") != found.challenge:
            raise _bad_code()
        return found.user


def challenge_of(verifier: str) -> str:
    """The challenge of a verifier by the method S256 (RFC 7636)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")


def _bad_code() -> CodeError:
    return CodeError("bad_verification_code", "The code passed is incorrect or expired.")


def _portless(address: str) -> str:
    url = URL(address)
    return str(url.with_port(None)) if url.host in _LOOPBACK else address
