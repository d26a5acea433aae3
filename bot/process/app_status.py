"""Ask GitHub whether it accepts the App's credentials, and report at the start what IMQ finds of the App."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from datetime import datetime, timedelta

import structlog
from pydantic import SecretStr

from bot.doctor.webhook_probe import address_fault
from bot.gateway.github_app import App
from bot.gateway.schemas import AppAnswer, InstallationAnswer, WebhookAnswer
from bot.settings.environment import Settings
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.errors import GitHubError, NotFound, Unauthorized, Unavailable
from queue_engine.domain.model import Repository

_log = structlog.get_logger("imq.app")

_CHECK_EVERY = timedelta(minutes=5)
_RETRY_AFTER = timedelta(seconds=15)

_CHECK_EMPTY = timedelta(minutes=1)
"""How soon IMQ asks again while the App has no repository."""

_FIRST_ANSWER_SECONDS = 3.0
"""How long the readiness check waits for the first answer; without one the process counts as ready."""

_MOST_LISTED = 20
"""Installations whose repositories are counted at the start; each costs a token and a list."""

_ADVICE = (
    "Check IMQ_GITHUB_APP_ID and IMQ_GITHUB_PRIVATE_KEY, and that this machine's clock is right; generate a new key on "
    "the App's settings page if the old one was deleted."
)


class AppStatus:
    """Asks GitHub for the App now and then: `refusal` of its credentials, `advice` while it has no repository."""

    def __init__(
        self,
        app: App,
        repositories: Callable[[int], Awaitable[Collection[Repository]]],
        clock: Clock,
        *,
        public_url: str | None = None,
        relay_url: str | None = None,
        correct: Callable[[WebhookAnswer], Awaitable[WebhookAnswer]] | None = None,
        retry_after: timedelta = _RETRY_AFTER,
    ) -> None:
        """`repositories` lists those of an installation. `public_url` is where GitHub reaches IMQ, if it is
        known; `relay_url` is the relay that it sends webhooks to instead.

        `correct` sets the App's webhook right, if IMQ may. After `retry_after` IMQ asks again while GitHub refuses the
        credentials, or did not answer.
        """
        self._correct = correct
        self._retry_after = retry_after
        self._app = app
        self._repositories = repositories
        self._clock = clock
        self._public_url = public_url
        self._relay_url = relay_url
        self._due = clock.now()
        self._asked = False
        self._answered = asyncio.Event()
        self._described: tuple[object, ...] | None = None
        self.advice: str | None = None
        self.refusal: str | None = None
        self.accepted: bool | None = None
        """Whether GitHub accepted the credentials when it last answered; None before its first answer."""

    async def run_due(self) -> bool:
        """Ask GitHub if it is time; return whether it was. Raises nothing of GitHub's."""
        now = self._clock.now()
        if self._due - _CHECK_EVERY <= now < self._due:
            return False
        self._asked = True
        self._due = now + self._retry_after
        try:
            found = await self._app.read()
        except (Unauthorized, NotFound) as error:
            self._note(f"GitHub refuses the App's id or key: {error.message.rstrip('.')}. {_ADVICE}")
        except GitHubError as error:
            # The connection logs that GitHub cannot be reached.
            _log.debug("app_unread", error=error.message)
        else:
            self._note(None)
            self._due = now + await self._described_for(found)
        finally:
            self._answered.set()
        return True

    async def next_due(self) -> datetime | None:
        """Return when GitHub is asked next."""
        return self._due

    async def first_answer(self) -> None:
        """Wait for GitHub's first answer, if IMQ has asked, a few seconds at most."""
        if not self._asked:
            return
        try:
            async with asyncio.timeout(_FIRST_ANSWER_SECONDS):
                await self._answered.wait()
        except TimeoutError:
            return

    def _note(self, refusal: str | None) -> None:
        accepted = refusal is None
        if accepted is not self.accepted and not accepted:
            _log.warning("app_refused", advice=refusal)
        elif accepted and self.accepted is False:
            _log.info("app_accepted")
        self.accepted, self.refusal = accepted, refusal

    async def _described_for(self, found: AppAnswer) -> timedelta:
        """Describe the App, again while it has no repository; return when to ask GitHub again."""
        if self._described is not None and self.advice is None:
            return _CHECK_EVERY
        try:
            await self._describe(found)
        except Unavailable:
            return self._retry_after
        except GitHubError as error:
            if self._described is None:
                _log.info("app_not_described", error=error.message)
            self._described = self._described or ()
        return _CHECK_EVERY if self.advice is None else _CHECK_EMPTY

    async def _describe(self, found: AppAnswer) -> None:
        """Log what IMQ found, unless it has. Raises GitHubError; then the next check describes it."""
        installations = await self._app.installations()
        webhook = await self._app.webhook()
        if self._correct is not None:
            webhook = await self._correct(webhook)
        active = [each for each in installations if each.suspended_at is None]
        repositories = await self._count_repositories(active)
        code, self.advice = _advice(found, installations, repositories)
        former, self._described = self._described, (len(installations), len(active), repositories)
        if self._described == former:
            return
        _log.info(
            "app_found",
            slug=found.slug,
            app_id=found.id,
            installations=len(installations),
            suspended=[each.owner for each in installations if each.suspended_at is not None],
            repositories=repositories,
            webhook=webhook.url,
        )
        if code is not None:
            _log.warning(code, advice=self.advice)
        if (fault := address_fault(webhook.url, self._public_url, self._relay_url)) is not None:
            _log.warning("webhook_address_wrong", address=webhook.url, advice=fault)

    async def _count_repositories(self, installations: list[InstallationAnswer]) -> int | None:
        """Count the repositories; None where there are too many installations to ask."""
        if len(installations) > _MOST_LISTED:
            return None
        lists = [await self._repositories(each.id) for each in installations]
        return sum(map(len, lists))


def _advice(
    found: AppAnswer, installations: list[InstallationAnswer], repositories: int | None
) -> tuple[str, str] | tuple[None, None]:
    """Return how to give the App a repository, with the log line's event; None if it has one, or may have."""
    if not installations:
        return "app_not_installed", f"Install the App on a repository: {found.html_url}/installations/new"
    if repositories == 0:
        active = [each.html_url for each in installations if each.suspended_at is None]
        step = "Choose repositories for the App" if active else "Unsuspend the App"
        return "app_has_no_repositories", f"{step}: {' or '.join(active or [each.html_url for each in installations])}"
    return None, None


_REFUSED = 401
"""How IMQ answers a delivery that is signed with another secret."""


class WebhookCorrection:
    """Sets the address and the secret where they differ from the settings.

    GitHub never shows the secret. It differs if there is none, or if IMQ refused the signature of the newest delivery.
    """

    def __init__(self, app: App, address: str | None, secret: SecretStr) -> None:
        """`address` is where GitHub reaches IMQ; None leaves everything as it is."""
        self._app = app
        self._address = address
        self._secret = secret

    async def apply(self, found: WebhookAnswer) -> WebhookAnswer:
        """Return the webhook as it is afterwards. Raises GitHubError only for reads."""
        if self._address is None:
            return found
        moved = found.url != self._address
        resigned = moved or found.secret is None or await self._app.newest_delivery_status() == _REFUSED
        if not resigned:
            return found
        try:
            corrected = await self._app.update_webhook(self._address, self._secret)
        except GitHubError as error:
            _log.warning("webhook_not_corrected", address=found.url, wanted=self._address, error=error.message)
            return found
        _log.warning("webhook_corrected", before=found.url, address=self._address, secret="set")  # noqa: S106
        return corrected


def correction_of(app: App, settings: Settings) -> WebhookCorrection:
    """Return the correction that the settings ask for."""
    corrects = settings.corrects_webhook and settings.github_webhook_secret.get_secret_value()
    address = settings.webhook_address if corrects else None
    return WebhookCorrection(app, address, settings.github_webhook_secret)
