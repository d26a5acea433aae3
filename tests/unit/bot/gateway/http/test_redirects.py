"""Redirects and links that GitHub answers with: followed on its own host, and nowhere else."""

import pytest

from bot.gateway import Gateway
from queue_engine.domain.errors import GitHubError, Unavailable
from queue_engine.domain.model import Repository
from tests.unit.bot.answers import pull_request
from tests.unit.bot.gateway.http.error_examples import MERGE, PULL, _merge
from tests.unit.bot.github_double import GitHubDouble, Says


async def test_write_redirected_is_not_sent_elsewhere(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """aiohttp would send a redirected POST as a GET (301), or send it to another host."""
    github.on("PUT", MERGE, Says({"message": "Moved Permanently"}, 301, {"location": "/elsewhere"}))
    with pytest.raises(Unavailable, match="Moved Permanently"):
        await _merge(gateway, repository)
    assert [asked.path for asked in github.asked if asked.path == "/elsewhere"] == []


async def test_read_of_renamed_repository_follows_on_the_same_host(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """GitHub answers 301 for a renamed repository's old name."""
    github.on("GET", PULL, Says({"message": "Moved"}, 301, {"location": f"{github.url}/repositories/5/pulls/3"}))
    github.on("GET", "/repositories/5/pulls/3", Says(pull_request()))
    assert (await gateway.pull_request(repository, 3)).title == "Count holes"


async def test_redirect_in_circles_ends(gateway: Gateway, github: GitHubDouble, repository: Repository) -> None:
    """Every wait has a limit."""
    github.on("GET", PULL, Says({}, 302, {"location": PULL}))
    with pytest.raises(Unavailable, match="circles"):
        await gateway.pull_request(repository, 3)


@pytest.mark.parametrize("elsewhere", ["http://localhost:{port}/x", "https://127.0.0.1:{port}/x", "http://127.0.0.1:1"])
async def test_redirect_to_another_host_or_scheme_does_not_get_the_token(
    gateway: Gateway, github: GitHubDouble, repository: Repository, elsewhere: str
) -> None:
    """gidgethub follows any absolute URL with the token attached."""
    location = elsewhere.format(port=github.url.rpartition(":")[2])
    github.on("GET", PULL, Says({}, 302, {"location": location}))
    with pytest.raises(GitHubError, match="another host"):
        await gateway.pull_request(repository, 3)
    assert [asked.path for asked in github.asked if asked.path == "/x"] == []


async def test_paging_link_to_another_host_does_not_get_the_token(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """A link that an answer contains is as little to be trusted as a redirect."""
    link = {"link": '<http://evil.example/page/2>; rel="next"'}
    github.on("GET", "/repos/ada/engine/issues", Says([], headers=link))
    with pytest.raises(GitHubError, match=r"evil\.example"):
        await gateway.labeled_pull_requests(repository, "merge-queue")


UNREADABLE = [
    "http://[::1",
    "http://xn--/",
    "http://127.0.0.1:b/",
    "http://127.0.0.1:99999/",
    "http://u@:80/",
]


@pytest.mark.parametrize("address", UNREADABLE)
async def test_redirect_to_what_is_no_address_is_trouble_of_github(
    gateway: Gateway, github: GitHubDouble, repository: Repository, address: str
) -> None:
    """Each was a ValueError from deep inside, taken for a fault of IMQ's own."""
    github.on("GET", PULL, Says({}, 302, {"location": address}))
    with pytest.raises(Unavailable, match="no address"):
        await gateway.pull_request(repository, 3)


@pytest.mark.parametrize("address", UNREADABLE)
async def test_link_to_what_is_no_address_is_trouble_of_github(
    gateway: Gateway, github: GitHubDouble, repository: Repository, address: str
) -> None:
    """Nothing is concluded from half a list."""
    github.on("GET", "/repos/ada/engine/issues", Says([], headers={"link": f'<{address}>; rel="next"'}))
    with pytest.raises(Unavailable, match="no address"):
        await gateway.labeled_pull_requests(repository, "merge-queue")


async def test_link_in_the_answer_to_a_write_is_not_read(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """What was merged is not doubted for it."""
    github.on("PUT", MERGE, Says({"sha": "a" * 40, "merged": True}, headers={"link": '<http://[>; rel="next"'}))
    await _merge(gateway, repository)


async def test_redirect_with_a_password_is_not_followed(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """aiohttp refuses to send two credentials, by an error of the caller's."""
    github.on("GET", PULL, Says({}, 302, {"location": github.url.replace("//", "//eve:x@") + "/x"}))
    with pytest.raises(GitHubError, match="another host"):
        await gateway.pull_request(repository, 3)


async def test_paging_without_end_ends(gateway: Gateway, github: GitHubDouble, repository: Repository) -> None:
    """A server that links to the same page for ever does not hold a call for ever."""
    link = {"link": f'<{github.url}/repos/ada/engine/issues>; rel="next"'}
    github.on("GET", "/repos/ada/engine/issues", Says([], headers=link))
    with pytest.raises(Unavailable, match="pages"):
        await gateway.labeled_pull_requests(repository, "merge-queue")


def with_artifacts(github: GitHubDouble, location: str) -> None:
    """A failed job whose annotation is a warning, and whose run has five archives of reports, one expired."""
    within, archives = "/repos/ada/engine", range(1, 6)
    warned = {"annotation_level": "warning", "title": "test_slow", "message": "deprecated"}
    github.on("GET", f"{within}/check-runs/5/annotations", Says([warned]))
    github.on("GET", f"{within}/actions/jobs/5", Says({"id": 5, "run_id": 7, "name": "unit"}))
    listed = [{"id": each, "name": "junit", "size_in_bytes": 9, "expired": each == 1} for each in archives]
    github.on("GET", f"{within}/actions/runs/7/artifacts", Says({"total_count": 5, "artifacts": listed}))
    for each in archives[1:]:
        github.on("GET", f"{within}/actions/artifacts/{each}/zip", Says({}, 302, {"location": location}))


async def test_three_archives_are_downloaded_without_the_token_and_a_warning_names_no_test(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """P7: a run may upload hundreds."""
    with_artifacts(github, f"{github.url}/storage")
    github.on("GET", "/storage", Says({}))
    assert await gateway.failed_tests(repository, [5]) == ()
    asked = github.asked_for("GET", "/storage")
    assert len(asked) == 3
    assert all("authorization" not in each.headers for each in asked)


@pytest.mark.parametrize(
    "elsewhere", ["https://127.0.0.1/x", "file:///etc/passwd", "/x", "http://ada:word@127.0.0.1/x"]
)
async def test_download_from_no_address_of_its_own_kind_is_not_sent(
    gateway: Gateway, github: GitHubDouble, repository: Repository, elsewhere: str
) -> None:
    """Another scheme, no host, or credentials of somebody: GitHub's storage has none of them."""
    with_artifacts(github, elsewhere)
    with pytest.raises(Unavailable, match="no address of its own kind"):
        await gateway.failed_tests(repository, [5])
