"""How GitHub's refusals and troubles reach the engine."""

import json
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest
from pydantic import SecretStr

from bot.gateway import Gateway
from bot.gateway.http import client
from bot.gateway.http.client import Call, Client, Credential
from bot.gateway.http.connection import Connection
from bot.gateway.http.refusals import refusal, requested_wait
from queue_engine.domain.errors import (
    Disorder,
    Forbidden,
    GitHubError,
    HeadConflict,
    Invalid,
    MergeError,
    RateLimitError,
    ReadLagError,
    Refused,
    Unavailable,
)
from queue_engine.domain.model import Repository
from tests.unit.bot.answers import pull_request
from tests.unit.bot.conftest import ManualClock
from tests.unit.bot.gateway.http.error_examples import MERGE, PULL, _merge
from tests.unit.bot.github_double import GitHubDouble, Says

ALLOW_LIST = (
    "Although you appear to have the correct authorization credentials, the `ada` organization has an IP allow list "
    "enabled, and your IP address is not permitted to access this resource."
)


@pytest.mark.parametrize(
    ("says", "error", "words"),
    [
        (Says({"message": "Bad credentials"}, 401), ReadLagError, "just issued is not accepted yet: Bad credentials"),
        (
            Says({"message": "Resource not accessible by integration"}, 403),
            Refused,
            "Resource not accessible by integration",
        ),
        (Says({"message": "Not Found"}, 404), Refused, "Not Found"),
        (Says({"message": "Gone"}, 410), Refused, "Gone"),
        (Says({"message": "Base branch was modified"}, 405), MergeError, "Base branch was modified"),
        (Says({"message": "Head branch was modified"}, 409), HeadConflict, "Head branch was modified"),
        (
            Says({"message": "Validation Failed", "errors": ["no new commits", {"message": "bad sha"}]}, 422),
            Invalid,
            "Validation Failed: no new commits; bad sha",
        ),
        (
            Says(
                {
                    "message": "Validation Failed",
                    "errors": [{"resource": "PullRequest", "field": "base", "code": "invalid"}],
                },
                422,
            ),
            Invalid,
            "Validation Failed: PullRequest base invalid",
        ),
        (Says({"message": "No", "errors": "a plain sentence"}, 422), Invalid, "No: a plain sentence"),
        (Says({"errors": []}, 422), Refused, "GitHub answered 422"),
        (Says(["a list"], 422), Refused, "GitHub answered 422"),
        (Says({"message": "Bad Request"}, 400), Refused, "Bad Request"),
        (Says({"message": "I'm a teapot"}, 418), Refused, "I'm a teapot"),
        (Says({"message": "Request Timeout"}, 408), Unavailable, "Request Timeout"),
        (Says(status=500, body=b""), Unavailable, "GitHub answered 500"),
        (Says(status=502, body=b"<html>Unicorn!</html>", content_type="text/html"), Unavailable, "GitHub answered 502"),
        (Says(status=520, body=b"odd"), Unavailable, "GitHub answered 520"),
        (Says(status=403, body=b"{broken"), Refused, "GitHub answered 403"),
        (Says(body=b"{broken"), Unavailable, "cannot be read"),
        (Says(body=b"{}", content_type="application/json; charset=klingon"), Unavailable, "cannot be read"),
        (Says(body=b"<html>Log in</html>", content_type="text/html"), Unavailable, "no JSON"),
        (Says({"merged": True}), Unavailable, "sha"),
        (Says(status=204), Unavailable, "not GitHub's"),
    ],
)
async def test_merge_refused_or_in_trouble_raises_our_own_error(
    gateway: Gateway, github: GitHubDouble, repository: Repository, says: Says, error: type[GitHubError], words: str
) -> None:
    """Every status has one class and GitHub's own words, and nothing of gidgethub's gets through."""
    github.on("PUT", MERGE, says)
    with pytest.raises(GitHubError, match=words) as caught:
        await _merge(gateway, repository)
    assert type(caught.value) is error


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("Request cannot be processed at this time.", Refused),
        ("Validation Failed", Refused),
        ("No commit found for SHA: h1", Invalid),
    ],
)
async def test_read_refused_by_422_is_github_in_trouble_unless_it_lacks_the_commit(
    gateway: Gateway, github: GitHubDouble, repository: Repository, words: str, error: type[GitHubError]
) -> None:
    """P5: a read has no content that could be wrong; overload and proxies answer 422 too."""
    github.on("GET", PULL, Says({"message": words}, 422))
    with pytest.raises(GitHubError) as caught:
        await gateway.pull_request(repository, 3)
    assert type(caught.value) is error


@pytest.mark.parametrize(
    ("status", "words", "disorder"),
    [
        (403, "This installation has been suspended", Disorder.SUSPENDED),
        (
            403,
            "Sorry. This installation owned by ada suspended your access at 2026-01-05T09:00:00Z.",
            Disorder.SUSPENDED,
        ),
        (403, "Sorry. Your account was suspended.", Disorder.BLOCKED),
        (403, "Your account is locked due to a billing issue.", Disorder.BLOCKED),
        (451, "Repository access blocked", Disorder.BLOCKED),
        (403, ALLOW_LIST, Disorder.NOT_ALLOWED_ADDRESS),
        (403, "Access is not possible now.", None),
    ],
)
def test_refusal_of_all_is_known_by_its_words_in_rest_and_in_graphql(
    status: int, words: str, disorder: Disorder | None
) -> None:
    """P5: what is out of order holds its queues, whichever API says so first. GraphQL has the status 200."""
    found = refusal(status, {}, json.dumps({"message": words}).encode(), datetime(2026, 1, 5, tzinfo=UTC), granted={})
    assert isinstance(found, Refused)
    assert found.disorder is disorder
    if disorder is None:
        return
    answer = client.QueryAnswer(
        data={"repository": None}, errors=[client.ErrorAnswer(type="FORBIDDEN", message=words, path=["repository"])]
    )
    with pytest.raises(Refused) as caught:
        client.check(answer, [("repository",)])
    assert caught.value.disorder is disorder


@pytest.mark.parametrize("errors", [{}, {"errors": None}, {"errors": []}])
async def test_refusal_without_errors_has_githubs_message_alone(
    gateway: Gateway, github: GitHubDouble, repository: Repository, errors: dict[str, object]
) -> None:
    """People read it in comments, as GitHub wrote it."""
    github.on("PUT", MERGE, Says({"message": "Base branch was modified", **errors}, 405))
    with pytest.raises(MergeError) as caught:
        await _merge(gateway, repository)
    assert caught.value.message == "Base branch was modified"


@pytest.mark.parametrize(
    ("says", "wait"),
    [
        (Says({"message": "slow down"}, 429), 60),
        (Says({"message": "slow down"}, 429, {"retry-after": "7"}), 7),
        (Says({"message": "You have exceeded a secondary rate limit"}, 403), 60),
        (
            Says(
                {"message": "You have exceeded a secondary rate limit"},
                403,
                {"x-ratelimit-limit": "5000", "x-ratelimit-remaining": "4000", "x-ratelimit-reset": "99999999999"},
            ),
            60,
        ),
        (Says({"message": "Please retry your request again later."}, 403, {"retry-after": "120"}), 120),
        (Says({"message": "triggered an abuse detection mechanism"}, 403), 60),
        (Says({"message": "You have been temporarily blocked from content creation."}, 403), 60),
        (Says({"message": "Validation Failed", "errors": [{"resource": "IssueComment", "code": "abuse"}]}, 422), 60),
        (Says({"message": "Validation Failed", "errors": [{"message": "was submitted too quickly"}]}, 422), 60),
        (Says({"message": "Validation Failed", "errors": ["was submitted too quickly"]}, 422), 60),
    ],
)
async def test_limit_met_raises_rate_limited_with_githubs_wait(
    gateway: Gateway, github: GitHubDouble, repository: Repository, says: Says, wait: int
) -> None:
    """Secondary limits come as 403, 429 or 422, with and without headers (gidgethub makes them plain bad requests)."""
    github.on("PUT", MERGE, says)
    with pytest.raises(RateLimitError) as caught:
        await _merge(gateway, repository)
    assert caught.value.retry_after == timedelta(seconds=wait)


@pytest.mark.parametrize(
    ("says", "error"),
    [
        (Says({"message": "refusing to update workflow `.github/workflows/rate limit.yml`"}, 403), Forbidden),
        (Says({"message": "Branch 'abuse detection' is protected"}, 403), Refused),
        (Says({"message": "You're not authorized to push to this branch."}, 403), Forbidden),
        (Says({"message": "refusing to update workflow `.github/workflows/saml.yml`"}, 403), Forbidden),
        (Says({"message": "refusing to update workflow `.github/workflows/a`ip allow list`.yml`"}, 403), Forbidden),
        (Says({"message": "Validation Failed", "errors": ["no branch 'submitted too quickly'"]}, 422), Invalid),
        (Says({"message": "Validation Failed", "errors": [{"code": "custom", "field": "abuse"}]}, 422), Invalid),
    ],
)
async def test_limit_that_an_author_names_in_a_file_or_branch_is_none(
    gateway: Gateway, github: GitHubDouble, repository: Repository, says: Says, error: type[GitHubError]
) -> None:
    """P5: GitHub quotes names by strangers; none of them stops an installation for a minute and more."""
    github.on("PUT", MERGE, says)
    with pytest.raises(error):
        await _merge(gateway, repository)


async def test_primary_limit_used_up_waits_for_its_reset(
    gateway: Gateway, github: GitHubDouble, repository: Repository, clock: ManualClock
) -> None:
    """A 403 with none remaining names the instant at which the limit is renewed."""
    reset = int((clock.now() + timedelta(minutes=12)).timestamp())
    headers = {"x-ratelimit-limit": "5000", "x-ratelimit-remaining": "0", "x-ratelimit-reset": str(reset)}
    github.on("PUT", MERGE, Says({"message": "API rate limit exceeded"}, 403, headers))
    with pytest.raises(RateLimitError) as caught:
        await _merge(gateway, repository)
    assert caught.value.retry_after == timedelta(minutes=12)


async def test_installation_limited_sends_nothing_until_the_wait_is_over(
    gateway: Gateway, github: GitHubDouble, repository: Repository, clock: ManualClock
) -> None:
    """GitHub may ban a client that sends while limited, so the gateway refuses calls until the wait ends."""
    github.on("GET", PULL, Says({"message": "slow"}, 429, {"retry-after": "30"}), Says(pull_request()))
    with pytest.raises(RateLimitError):
        await gateway.pull_request(repository, 3)
    clock.instant += timedelta(seconds=10)
    with pytest.raises(RateLimitError) as caught:
        await gateway.pull_request(repository, 3)
    assert caught.value.retry_after == timedelta(seconds=20)
    assert len(github.asked_for("GET", PULL)) == 1
    clock.instant += timedelta(seconds=20)
    assert (await gateway.pull_request(repository, 3)).number == 3


async def test_installation_limited_leaves_others_alone(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """Limits are GitHub's per installation: one that is used up holds up no other."""
    github.on("GET", PULL, Says({"message": "slow"}, 429), Says(pull_request()))
    with pytest.raises(RateLimitError):
        await gateway.pull_request(repository, 3)
    other = Repository(id=6, owner="ada", name="engine", installation_id=10)
    assert (await gateway.pull_request(other, 3)).number == 3


async def test_last_request_used_successfully_holds_the_next_until_the_reset(
    gateway: Gateway, github: GitHubDouble, repository: Repository, clock: ManualClock
) -> None:
    """The gateway stops before GitHub refuses a call, and metrics show what remains."""
    reset = clock.now() + timedelta(minutes=5)
    headers = {
        "x-ratelimit-limit": "5000",
        "x-ratelimit-remaining": "0",
        "x-ratelimit-reset": str(int(reset.timestamp())),
    }
    github.on("GET", PULL, Says(pull_request(), headers=headers))
    await gateway.pull_request(repository, 3)
    with pytest.raises(RateLimitError) as caught:
        await gateway.pull_request(repository, 3)
    assert caught.value.retry_after == timedelta(minutes=5)
    budget = gateway.budget[9]
    assert (budget.limit, budget.remaining, budget.resets_at) == (5000, 0, reset)


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": "Fri, 02 Jan 2026 03:05:05 GMT"}, 60),
        ({"retry-after": "Fri, 02 Jan 2026 03:00:00 GMT"}, 1),
        ({"retry-after": "soon"}, None),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "soon"}, None),
    ],
)
def test_retry_after_given_as_a_date_is_understood_and_nonsense_names_no_time(
    headers: dict[str, str], wait: int | None
) -> None:
    """HTTP allows dates; what cannot be read means GitHub's documented minute, like no word at all."""
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert requested_wait(headers, now) == (None if wait is None else timedelta(seconds=wait))


async def test_connection_cut_raises_unavailable(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """A reset may come after the merge happened: trouble, not a refusal (aiohttp would repeat the PUT by itself)."""
    github.on("PUT", MERGE, Says(hang_up=True))
    with pytest.raises(Unavailable):
        await _merge(gateway, repository)
    assert len(github.asked_for("PUT", MERGE)) == 1, "a write is never repeated by the gateway"


async def test_connection_refused_raises_unavailable(
    session: aiohttp.ClientSession, pem: str, clock: ManualClock, repository: Repository
) -> None:
    """A GitHub that cannot be reached is in trouble."""
    gateway = Gateway(
        Connection(session, api_url="http://127.0.0.1:1", app_id="1", private_key=SecretStr(pem), clock=clock)
    )
    with pytest.raises(Unavailable):
        await gateway.pull_request(repository, 3)


@pytest.mark.process
async def test_request_over_its_limit_raises_unavailable(
    session: aiohttp.ClientSession, github: GitHubDouble, clock: ManualClock
) -> None:
    """gidgethub and aiohttp would wait for five minutes."""
    client = Client(session, api_url=github.url, clock=clock)
    github.on("GET", "/slow", Says(hang=True))
    with pytest.raises(Unavailable, match="in time"):
        await client.exchange(
            Call("GET", "/slow", limit=timedelta(milliseconds=20)), Credential(token=SecretStr("ghs_x"))
        )


@pytest.mark.parametrize(
    "headers",
    [
        {"retry-after": "9" * 18},
        {"retry-after": "9" * 5000},
        {"retry-after": "\u0663"},
        {"retry-after": "Fri, 31 Dec 99999999999 23:59:59 GMT"},
        {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "9" * 11},
        {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1" + "0" * 18, "x-ratelimit-limit": "5000"},
        {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "nan", "x-ratelimit-limit": "5000"},
    ],
)
async def test_limit_that_ends_at_an_impossible_instant_is_waited_for_two_hours_at_most(
    gateway: Gateway, github: GitHubDouble, repository: Repository, headers: dict[str, str]
) -> None:
    """10^18 seconds overflowed; 5138 is no better."""
    github.on("GET", PULL, Says({"message": "API rate limit exceeded"}, 403, headers))
    with pytest.raises(RateLimitError) as limited:
        await gateway.pull_request(repository, 3)
    assert timedelta(0) < limited.value.retry_after <= timedelta(hours=2)
