"""Limits of the codes of logins, for all persons together."""

from datetime import timedelta

from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from bot.http.client_address import ClientAddresses
from bot.web.login.attempts import OF_PERSON_AN_HOUR, OF_PERSONS_AN_HOUR, CodeLimits
from bot.web.login.session_cookies import Cookies, Signer
from queue_engine.core.timing.clock import SystemClock

CLOCK, SIGNER = SystemClock(), Signer([b"k" * 32])


def browser_of(person_id: int) -> web.Request:
    """A request of a browser in which this person logged in before."""
    known = SIGNER.sign_content("imq_known", person_id, CLOCK.now(), timedelta(days=1))
    return make_mocked_request("GET", "/auth/callback", headers={"Cookie": f"imq_known={known}"})


def test_known_persons_have_a_share_each_and_one_together() -> None:
    """So IMQ stays below GitHub's limit, however many persons log in."""
    limits = CodeLimits(CLOCK, SIGNER, Cookies(secure=False), ClientAddresses(()))
    waits = [limits.take(browser_of(0)) for _ in range(OF_PERSON_AN_HOUR + 1)]
    assert [wait > timedelta(0) for wait in waits] == [False] * OF_PERSON_AN_HOUR + [True]
    others = [limits.take(browser_of(number)) for number in range(1, OF_PERSONS_AN_HOUR + 1)]
    assert sum(wait <= timedelta(0) for wait in others) == OF_PERSONS_AN_HOUR - OF_PERSON_AN_HOUR
