"""Keep the tokens of logins, one for each server, in a file that only its owner reads."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FILE_MODE, FOLDER_MODE = 0o600, 0o700


class LoginsError(Exception):
    """The file of logins cannot be read or written. The message has the way out."""


@dataclass(frozen=True, slots=True)
class StoredLogin:
    """A login at one server. `github` is the host of the GitHub that it serves."""

    url: str
    token: str
    login: str
    github: str
    expires_at: str

    def __repr__(self) -> str:
        """Leave the token out, which no message may have."""
        return f"StoredLogin({self.url!r}, login={self.login!r})"


class Logins:
    """The logins of this account on this machine."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def find(self, url: str | None) -> StoredLogin | None:
        """Return the login at a server; without one, the newest login."""
        logins, newest = self._read()
        return logins.get(url or newest)

    def add(self, login: StoredLogin) -> None:
        """Store a login, which becomes the newest. Raises LoginsError."""
        logins, _ = self._read()
        self._write({**logins, login.url: login}, login.url)

    def remove(self, url: str) -> None:
        """Forget a login. Raises LoginsError."""
        logins, newest = self._read()
        rest = {each: login for each, login in logins.items() if each != url}
        self._write(rest, newest if newest in rest else next(reversed(rest), ""))

    def _read(self) -> tuple[dict[str, StoredLogin], str]:
        with self._explained():
            try:
                content = json.loads(self._file.read_text(encoding="utf-8"))
            except FileNotFoundError:
                return {}, ""
            if os.name == "posix" and self._file.stat().st_mode & 0o077:
                self._file.chmod(FILE_MODE)
            found = [StoredLogin(**each) for each in content["logins"]]
            return {each.url: each for each in found}, str(content["newest"])

    def _write(self, logins: Mapping[str, StoredLogin], newest: str) -> None:
        """Replace the file at once, so that no reader sees half of it."""
        content: dict[str, Any] = {"newest": newest, "logins": [asdict(each) for each in logins.values()]}
        with self._explained():
            self._file.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            partial = self._file.with_name(f"{self._file.name}.{os.getpid()}")
            partial.unlink(missing_ok=True)
            with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "w") as stream:
                json.dump(content, stream, indent=2)
            partial.replace(self._file)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError, TypeError, KeyError) as error:
            # A damaged file has tokens in it, so its content is not repeated.
            why = error.strerror if isinstance(error, OSError) else "it is damaged"
            raise LoginsError(f"{self._file}: {why}. Correct or delete it, and run `imq login`.") from None


def logins_file(environ: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Return where logins are kept: XDG's folder, or the one of Windows or macOS."""
    home = Path(environ.get("HOME") or environ.get("USERPROFILE") or Path.home())
    if chosen := environ.get("XDG_CONFIG_HOME"):
        folder = Path(chosen)
    elif platform == "win32":
        folder = Path(environ.get("APPDATA") or home / "AppData" / "Roaming")
    elif platform == "darwin":
        folder = home / "Library" / "Application Support"
    else:
        folder = home / ".config"
    return folder / "imq" / "logins.json"
