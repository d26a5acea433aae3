"""What every request carries: identity, versions, tokens, conditions; and that it is counted."""

import asyncio
from datetime import timedelta

import aiohttp
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from pydantic import SecretStr
from structlog.testing import capture_logs

from bot import __version__
from bot.gateway import Gateway
from bot.gateway.http.client import Credential
from bot.gateway.http.connection import Connection
from bot.gateway.http.installation_tokens import Token
from queue_engine.domain.errors import ReadLagError, Unauthorized, Unavailable, is_retryable
from queue_engine.domain.facts import MergeMethod, Permission
from queue_engine.domain.model import Repository
from tests.unit.bot.answers import pull_request
from tests.unit.bot.conftest import APP_ID, ManualClock
from tests.unit.bot.gateway.http.pacing_examples import Figures
from tests.unit.bot.github_double import GitHubDouble, Says

PULL = "/repos/ada/engine/pulls/3"
TOKENS = "/app/installations/9/access_tokens"


async def test_request_carries_pinned_version_and_name(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """Newer API versions drop fields; GitHub refuses requests without a user agent."""
    github.on("GET", PULL, Says(pull_request()))
    await gateway.pull_request(repository, 3)
    headers = github.asked_for("GET", PULL)[0].headers
    assert headers["X-GitHub-Api-Version"] == "2022-11-28"
    assert headers["User-Agent"] == f"imq/{__version__}"
    assert headers["Authorization"] == "token ghs_token1"


async def test_enterprise_server_url_with_a_path_is_kept(
    session: aiohttp.ClientSession, github: GitHubDouble, pem: str, clock: ManualClock, repository: Repository
) -> None:
    """Enterprise Server has its API below /api/v3."""
    gateway = Gateway(
        Connection(session, api_url=github.url + "/api/v3/", app_id="1", private_key=SecretStr(pem), clock=clock)
    )
    github.on("GET", "/api/v3" + PULL, Says(pull_request()))
    assert (await gateway.pull_request(repository, 3)).number == 3


async def test_app_jwt_is_short_lived_and_signed_by_the_app(
    gateway: Gateway, github: GitHubDouble, repository: Repository, clock: ManualClock, rsa_key: RSAPrivateKey
) -> None:
    """GitHub refuses JWTs of more than ten minutes, and those issued in what it thinks is the future."""
    github.on("GET", PULL, Says(pull_request()))
    await gateway.pull_request(repository, 3)
    scheme, _, encoded = github.asked_for("POST", TOKENS)[0].headers["Authorization"].partition(" ")
    claims = jwt.decode(
        encoded, rsa_key.public_key(), algorithms=["RS256"], options={"verify_exp": False, "verify_iat": False}
    )
    now = int(clock.now().timestamp())
    assert scheme.lower() == "bearer"
    assert claims["iss"] == str(APP_ID)
    assert claims["iat"] < now < claims["exp"] <= now + 600


async def test_token_asked_for_by_many_is_fetched_once(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """A burst after a start must not become a burst of token requests."""
    github.on("GET", PULL, Says(pull_request()))
    await asyncio.gather(*(gateway.pull_request(repository, 3) for _ in range(10)))
    assert len(github.asked_for("POST", TOKENS)) == 1


async def test_token_fetch_failing_fails_all_who_wait_and_is_tried_afresh_later(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """Many waiting for one failing renewal share its failure instead of queueing up to repeat it."""
    good = Says({"token": "ghs_ok", "expires_at": "2026-01-02T04:04:05Z"}, 201)
    github.on("GET", PULL, Says(pull_request()))
    github.on("POST", TOKENS, Says(status=503, body=b""), good)
    results = await asyncio.gather(*(gateway.pull_request(repository, 3) for _ in range(5)), return_exceptions=True)
    assert {type(result) for result in results} == {Unavailable}
    assert len(github.asked_for("POST", TOKENS)) == 1
    assert (await gateway.pull_request(repository, 3)).number == 3


async def test_token_wait_given_up_by_one_still_serves_the_others(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """A cancelled caller must not cancel the renewal that others wait for."""
    github.on("GET", PULL, Says(pull_request()))
    impatient = asyncio.create_task(gateway.pull_request(repository, 3))
    patient = asyncio.create_task(gateway.pull_request(repository, 3))
    await asyncio.sleep(0)
    impatient.cancel()
    assert (await patient).number == 3
    with pytest.raises(asyncio.CancelledError):
        await impatient


@pytest.mark.parametrize(("life", "passed", "fetched"), [(60, 45, 1), (60, 51, 2), (2, 0.9, 1), (2, 1.1, 2)])
async def test_token_is_renewed_well_before_it_expires(
    gateway: Gateway,
    github: GitHubDouble,
    repository: Repository,
    clock: ManualClock,
    life: float,
    passed: float,
    fetched: int,
) -> None:
    """Ten minutes early, or at half the life of a short one: never one that expires under way (minutes)."""
    github.token_life = timedelta(minutes=life)
    github.on("GET", PULL, Says(pull_request()))
    await gateway.pull_request(repository, 3)
    clock.instant += timedelta(minutes=passed)
    await gateway.pull_request(repository, 3)
    assert github.tokens == fetched


async def test_token_no_longer_accepted_is_renewed_once(
    gateway: Gateway, github: GitHubDouble, repository: Repository, clock: ManualClock
) -> None:
    """A token can be revoked before its time; nothing was done, so even a write may be sent again."""
    merge = PULL + "/merge"
    github.on("POST", "/repos/ada/engine/check-runs", Says({"id": 1}, 201))
    await gateway.create_check_run(repository, {"name": "IMQ"})
    clock.instant += timedelta(seconds=21)
    github.on("PUT", merge, Says({"message": "Bad credentials"}, 401), Says({"sha": "landed", "merged": True}))
    assert await gateway.merge(repository, 3, "h1", MergeMethod.MERGE) == "landed"
    sent = [asked.headers["Authorization"] for asked in github.asked_for("PUT", merge)]
    assert sent == ["token ghs_token1", "token ghs_token2"]


async def test_token_just_issued_and_not_accepted_is_kept_and_passes_with_time(
    gateway: Gateway, github: GitHubDouble, repository: Repository, clock: ManualClock
) -> None:
    """GitHub's replicas learn of a token within seconds; a new one would be as unknown to them (auth-app.js #65).

    Nothing was done, and nothing counts as a failure: who asked comes back after 1, 2, 4 and 8 seconds.
    """
    refused = Says({"message": "Bad credentials"}, 401)
    github.on("GET", PULL, *[refused] * 5, Says(pull_request()))
    waits = []
    for _ in range(5):
        with pytest.raises(ReadLagError) as early:
            await gateway.pull_request(repository, 3)
        waits.append(early.value.retry_after.total_seconds())
        clock.instant += early.value.retry_after
    assert waits == [1, 1, 2, 4, 8]
    assert (await gateway.pull_request(repository, 3)).number == 3
    assert github.tokens == 1


async def test_token_just_issued_that_one_replica_accepted_may_be_refused_by_another(
    gateway: Gateway, github: GitHubDouble, repository: Repository, clock: ManualClock
) -> None:
    """octokit's auth-app.js goes by the token's age alone, too (#65); once it is older, it was revoked."""
    refused = Says({"message": "Bad credentials"}, 401)
    github.on("GET", PULL, Says(pull_request()), refused, refused, Says(pull_request()))
    await gateway.pull_request(repository, 3)
    with pytest.raises(ReadLagError):
        await gateway.pull_request(repository, 3)
    assert github.tokens == 1
    clock.instant += timedelta(seconds=21)
    await gateway.pull_request(repository, 3)
    assert github.tokens == 2


async def test_tokens_not_accepted_for_half_a_minute_are_github_in_trouble(
    gateway: Gateway, github: GitHubDouble, repository: Repository, clock: ManualClock
) -> None:
    """Then no replica lags, and no operator can fix it: GitHub issued the tokens. IMQ backs off (P7)."""
    github.on("GET", PULL, Says({"message": "Bad credentials"}, 401))
    for _ in range(2):
        with pytest.raises(ReadLagError):
            await gateway.pull_request(repository, 3)
        clock.instant += timedelta(seconds=15)
    for _ in range(2):
        with pytest.raises(Unavailable) as trouble:
            await gateway.pull_request(repository, 3)
        assert is_retryable(trouble.value)
    assert github.tokens == 2


async def test_app_jwt_not_accepted_raises_unauthorized_at_once(
    gateway: Gateway, github: GitHubDouble, repository: Repository, figures: Figures
) -> None:
    """A wrong key or App id is not cured by asking again; an alert watches the count of such answers."""
    github.on("POST", TOKENS, Says({"message": "A JSON web token could not be decoded"}, 401))
    with pytest.raises(Unauthorized, match="could not be decoded"):
        await gateway.pull_request(repository, 3)
    assert len(github.asked) == 1
    assert figures.counts["github_unauthorized",] == 1


async def test_installations_never_share_a_token(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """Each installation's token opens its own repositories only."""
    github.on("GET", PULL, Says(pull_request()))
    await gateway.pull_request(repository, 3)
    await gateway.pull_request(Repository(6, "ada", "engine", 10), 3)
    sent = [asked.headers["Authorization"] for asked in github.asked_for("GET", PULL)]
    assert sent == ["token ghs_token1", "token ghs_token2"]


async def test_read_repeated_is_conditional_and_unchanged_costs_nothing(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """GitHub does not count a 304 against the limit; only ETags are sent, as Last-Modified ignores `mergeable`."""
    tagged = {"etag": 'W/"one"', "last-modified": "Fri, 02 Jan 2026 03:05:05 GMT"}
    github.on("GET", PULL, Says(pull_request(), headers=tagged), Says(status=304, body=b""))
    first = await gateway.pull_request(repository, 3)
    assert await gateway.pull_request(repository, 3) == first
    asked = github.asked_for("GET", PULL)
    assert ["If-None-Match" in each.headers for each in asked] == [False, True]
    assert asked[1].headers["If-None-Match"] == 'W/"one"'
    assert "If-Modified-Since" not in asked[1].headers


async def test_cached_answer_is_not_shared_between_installations(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """One installation must not learn from the cache what another may see (gidgethub shares by URL)."""
    github.on("GET", PULL, Says(pull_request(), headers={"etag": '"one"'}))
    await gateway.pull_request(repository, 3)
    await gateway.pull_request(Repository(6, "ada", "engine", 10), 3)
    assert "If-None-Match" not in github.asked_for("GET", PULL)[1].headers


async def test_cached_pages_keep_their_links(gateway: Gateway, github: GitHubDouble, repository: Repository) -> None:
    """A 304 has no Link header; the pages behind it must still be read."""
    issues, second = "/repos/ada/engine/issues", "/repositories/5/issues"
    one = {"number": 1, "updated_at": "2026-01-01T00:00:00Z", "pull_request": {}}
    link = {"link": f'<{github.url}{second}?page=2>; rel="next"', "etag": '"one"'}
    github.on("GET", issues, Says([one], headers=link), Says(status=304, body=b""))
    github.on("GET", second, Says([{**one, "number": 2}]))
    for _ in range(2):
        found = await gateway.labeled_pull_requests(repository, "merge-queue")
        assert found == (1, 2)


async def test_permission_is_never_taken_from_a_cache(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """A right withdrawn a second ago is no right."""
    path = "/repos/ada/engine/collaborators/grace/permission"
    github.on("GET", path, Says({"permission": "write", "role_name": "write"}, headers={"etag": '"one"'}))
    for _ in range(2):
        assert await gateway.permission(repository, "grace") is Permission.WRITE
    assert all("If-None-Match" not in asked.headers for asked in github.asked_for("GET", path))


async def test_lines_logged_for_requests_contain_no_secret(
    gateway: Gateway, github: GitHubDouble, repository: Repository, clock: ManualClock
) -> None:
    """Not even before the mask: failing and successful requests are named by their templates."""
    github.on("GET", PULL, Says(pull_request()), Says({"message": "Bad credentials"}, 401), Says(pull_request()))
    with capture_logs() as lines:
        await gateway.pull_request(repository, 3)
        clock.instant += timedelta(seconds=21)
        await gateway.pull_request(repository, 3)
    assert [line["status"] for line in lines] == [201, 200, 401, 201, 200]
    tokens = [asked.headers["Authorization"].split()[1] for asked in github.asked]
    assert not any(token in str(lines) for token in tokens)


def test_secrets_are_not_in_reprs() -> None:
    """What a debugger or a traceback prints of a request shows no token."""
    now = ManualClock().now()
    assert "ghs_" not in repr(Credential(token=SecretStr("ghs_secret"), jwt=SecretStr("ghs_jwt")))
    assert "ghs_" not in repr(Token(SecretStr("ghs_secret"), now, now))
