"""The gateway and the receiver against the sandbox GitHub: the same facts and effects on real git, over HTTP.

Covers `queue_engine/domain/port.py`.
"""

from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import aiohttp
import pytest
from pydantic import SecretStr

from bot.gateway import Gateway
from bot.gateway.http.scopes import Purpose, Scope
from bot.web.application import create_app, serve
from bot.web.readiness import Readiness
from bot.webhooks.receiver import Receiver
from queue_engine.domain.errors import (
    Forbidden,
    HeadConflict,
    Invalid,
    MergeError,
    NotFound,
    RateLimitError,
    Unavailable,
)
from queue_engine.domain.facts import CheckState, MergeMethod, Permission, RequiredCheck
from queue_engine.domain.model import Repository
from queue_engine.domain.webhook_event import WebhookEvent, WebhookKind
from sandbox.ci.single_check import CISettings
from sandbox.facade.github import GitHub
from sandbox.ground.clock import ManualClock
from sandbox.rest.faults import Fault
from sandbox.rest.server import SandboxServer

PERMISSIONS = {
    "administration": "read",  # without it GitHub sends no webhooks about rulesets
    "checks": "write",
    "contents": "write",
    "issues": "write",
    "metadata": "read",
    "pull_requests": "write",
    "statuses": "read",
}
EVENTS = ("check_run", "check_suite", "pull_request", "push", "repository_ruleset", "status")
MERGE = "/repos/{owner}/{repo}/pulls/{number}/merge"


class SharedClock(ManualClock):
    """The sandbox's time, in the shape the gateway asks for."""

    async def sleep(self, duration: timedelta) -> None:
        self.advance(duration)


@dataclass
class Place:
    """A sandbox with one repository, one pull request, CI, and the gateway on it."""

    github: GitHub
    server: SandboxServer
    gateway: Gateway
    repository: Repository
    handle: Any
    pull: Any
    app: Any
    hints: list[WebhookEvent] = field(default_factory=list)

    async def store(self, hint: WebhookEvent) -> bool:
        self.hints.append(hint)
        return True

    async def run_ci(self) -> None:
        for _ in range(4):
            await self.github.settle()
            await self.github.advance(timedelta(minutes=1))


@pytest.fixture
async def place(session: aiohttp.ClientSession) -> AsyncIterator[Place]:
    clock = SharedClock()
    github = GitHub(clock, seed=3)
    server = SandboxServer(github)
    await server.start()
    for login in ("mona", "tria"):
        github.create_user(login)
    app = github.create_app("imq", permissions=PERMISSIONS, events=EVENTS, webhook_secret="s3cret")
    handle = github.create_repository(
        "acme/widgets", files={"app.py": "one\n"}, collaborators={"mona": "write", "tria": "triage"}
    )
    installation = github.install(app, "acme")
    handle.add_ci("ci/test", settings=CISettings(duration=timedelta(seconds=30)))
    handle.add_ci("ci/lint", settings=CISettings(duration=timedelta(seconds=10), status=True))
    pull = handle.open_pull_request("Add", head="topic/1", by="mona", files={"new.py": "new\n"})
    gateway = Gateway(
        session, api_url=server.url, app_id=str(app.id), private_key=SecretStr(app.private_key), clock=clock
    )
    repository = Repository(handle.record.id, "acme", "widgets", installation.id)
    made = Place(github, server, gateway, repository, handle, pull, app)
    receiver = Receiver(secret=SecretStr("s3cret"), own_app_id=app.id, store=made.store, clock=clock)
    runner = await serve(create_app(receiver, Readiness({}, clock)), 0, "127.0.0.1")
    app.webhook_url = f"http://127.0.0.1:{runner.addresses[0][1]}/webhook"
    yield made
    await runner.cleanup()
    await server.stop()
    await github.close()


async def test_repositories_and_own_login_are_found(place: Place) -> None:
    """From the App's key alone."""
    (installation,) = await place.gateway.installations()
    assert await place.gateway.repositories(installation) == (place.repository,)
    assert await place.gateway.own_login() == "imq[bot]"


async def test_people_have_the_roles_they_were_given(place: Place) -> None:
    """Triage shows in the role's name only."""
    people = {login: await place.gateway.permission(place.repository, login) for login in ("mona", "tria", "nobody")}
    assert people == {"mona": Permission.WRITE, "tria": Permission.TRIAGE, "nobody": Permission.NONE}


async def test_pull_request_mergeable_is_known_when_asked_again(place: Place) -> None:
    """The second, conditional request must not be told the first answer."""
    first = await place.gateway.pull_request(place.repository, place.pull.number)
    await place.github.advance(timedelta(seconds=30))
    second = await place.gateway.pull_request(place.repository, place.pull.number)
    assert (first.mergeable, second.mergeable) == (None, True)
    assert (second.author, second.head_sha, second.base_branch) == ("mona", place.pull.head_sha, "main")


async def test_checks_and_statuses_become_reports(place: Place) -> None:
    """CI's check run and CI's commit status, first pending, then passed."""
    await place.github.settle()
    before = await place.gateway.check_reports(place.repository, place.pull.head_sha, ())
    await place.run_ci()
    after = await place.gateway.check_reports(place.repository, place.pull.head_sha, ())
    assert {report.state for report in before} == {CheckState.PENDING}
    assert {report.name: report.state for report in after} == {
        "ci/lint": CheckState.PASSED,
        "ci/test": CheckState.PASSED,
    }


async def test_rules_of_protection_and_ruleset_are_read_together(place: Place) -> None:
    """As the sandbox's people set them."""
    place.handle.protect("main", required_checks=["ci/test"])
    place.handle.add_ruleset("linear", required_checks=["ci/lint"], linear_history=True, merge_queue=True)
    rules = await place.gateway.branch_rules(place.repository, "main")
    assert {check.name for check in rules.required_checks} == {"ci/test", "ci/lint"}
    assert (rules.native_queue, rules.linear_history) == (True, True)
    with pytest.raises(NotFound):
        await place.gateway.branch_rules(place.repository, "no/such/branch")


async def test_rule_bound_to_an_app_names_it(place: Place) -> None:
    """A check of that name from another App does not count."""
    place.handle.protect("main", required_checks=[("ci/test", 4242)])
    rules = await place.gateway.branch_rules(place.repository, "main")
    assert rules.required_checks == {RequiredCheck("ci/test", 4242)}


async def test_update_then_merge_lands_the_compared_tree(place: Place) -> None:
    """The whole way of one pull request: behind, updated, compared, merged; trees are the repository's own."""
    gateway, repository, number = place.gateway, place.repository, place.pull.number
    old_head = place.pull.head_sha
    tip = place.handle.push("main", {"moved.py": "moved\n"}, "Move", by="mona")
    behind = await gateway.comparison(repository, "main", old_head)
    assert (behind.base_tip, behind.behind) == (tip, 1)
    await gateway.update_branch(repository, number, old_head)
    await place.run_ci()
    head = place.pull.head_sha
    updated = await gateway.comparison(repository, "main", head)
    assert (updated.behind, updated.head.sha, updated.head.parents) == (0, head, (old_head, tip))
    assert updated.head.tree == place.handle.tree(head)
    landed = await gateway.merge(repository, number, head, MergeMethod.SQUASH)
    assert landed == place.handle.sha("main")
    assert (await gateway.commit(repository, landed)).tree == updated.head.tree
    merged = await gateway.pull_request(repository, number)
    assert (merged.merged, merged.merge_sha) == (True, landed)


async def test_update_with_nothing_to_do_or_another_head_is_invalid(place: Place) -> None:
    """Both are 422; the engine reads again then."""
    with pytest.raises(Invalid):
        await place.gateway.update_branch(place.repository, place.pull.number, place.pull.head_sha)
    place.handle.push("main", {"moved.py": "moved\n"}, "Move", by="mona")
    with pytest.raises(Invalid):
        await place.gateway.update_branch(place.repository, place.pull.number, "0" * 40)


async def test_merge_of_a_head_that_moved_or_against_rules_is_refused(place: Place) -> None:
    """409 and 405."""
    await place.run_ci()
    with pytest.raises(HeadConflict):
        await place.gateway.merge(place.repository, place.pull.number, "0" * 40, MergeMethod.MERGE)
    place.handle.protect("main", required_checks=["never/reports"])
    with pytest.raises(MergeError):
        await place.gateway.merge(place.repository, place.pull.number, place.pull.head_sha, MergeMethod.MERGE)


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "fail", "status": 502},
        {"kind": "apply_then_fail", "status": 500},
        {"kind": "reset"},
        {"kind": "apply_then_reset"},
    ],
)
async def test_merge_while_github_is_in_trouble_is_sent_once_and_unavailable(
    place: Place, fault: dict[str, Any]
) -> None:
    """Whether it happened is for a fresh read to tell; the gateway itself asks no second time."""
    await place.run_ci()
    place.server.faults.add(Fault(method="PUT", route=MERGE, **fault))
    with pytest.raises(Unavailable):
        await place.gateway.merge(place.repository, place.pull.number, place.pull.head_sha, MergeMethod.MERGE)
    sent = [request for request in place.server.requests if request.method == "PUT"]
    assert len(sent) == 1
    happened = (await place.gateway.pull_request(place.repository, place.pull.number)).merged
    assert happened == str(fault["kind"]).startswith("apply")


@pytest.mark.parametrize(("retry_after", "seconds"), [(17, 17), (None, 60)])
async def test_secondary_limit_is_waited_for(place: Place, retry_after: int | None, seconds: int) -> None:
    """With and without the header that says how long."""
    place.server.faults.add(Fault(kind="secondary_limit", method="GET", retry_after=retry_after))
    with pytest.raises(RateLimitError) as caught:
        await place.gateway.pull_request(place.repository, place.pull.number)
    assert caught.value.retry_after == timedelta(seconds=seconds)


async def test_token_outlives_an_hour_of_work(place: Place) -> None:
    """Renewed in time, and never refused."""
    await place.gateway.installations()  # what is granted is known from then on
    for _ in range(7):
        await place.gateway.permission(place.repository, "mona")
        await place.github.advance(timedelta(minutes=15))
    assert {request.status for request in place.server.requests} <= {200, 201}


async def test_token_is_asked_for_again_where_nobody_has_told_what_is_granted(place: Place) -> None:
    """GitHub refuses a token with a permission that the installation lacks: workflows, here."""
    assert (await place.gateway.permission(place.repository, "mona")).value == "write"
    tokens = [request for request in place.server.requests if request.template.endswith("/access_tokens")]
    assert [request.status for request in tokens] == [422, 201]
    place.gateway.forget_token(place.repository.installation_id)
    await place.gateway.installations()
    await place.gateway.permission(place.repository, "mona")
    tokens = [request for request in place.server.requests if request.template.endswith("/access_tokens")]
    assert [request.status for request in tokens] == [422, 201, 201]


async def test_tokens_reach_one_repository_and_no_more_than_their_call_needs(place: Place) -> None:
    """A leaked reading token writes nothing, a writing one starts no workflow, and none reaches another repository."""
    place.github.create_repository("acme/secrets", files={"key.txt": "k\n"})
    repository = place.repository
    await place.gateway.installations()
    await place.gateway.repositories(repository.installation_id)
    await place.gateway.pull_request(repository, place.pull.number)
    await place.gateway.permission(repository, "mona")
    with suppress(Forbidden, NotFound):
        await place.gateway.cancel_run(repository, 1)
    tokens = {scope.purpose: token.value for scope, token in place.gateway._connection._tokens._cache.items()}
    assert set(tokens) == {Purpose.LIST, Purpose.READ, Purpose.WRITE, Purpose.RUNS}
    own, other = f"/repos/{repository.full_name}", "/repos/acme/secrets"
    pull = f"{own}/issues/{place.pull.number}"
    tried: list[tuple[Purpose, str, str, int]] = [
        *(
            (purpose, "GET", f"{other}/contents/key.txt", 404)
            for purpose in (Purpose.READ, Purpose.WRITE, Purpose.RUNS)
        ),
        (Purpose.LIST, "GET", f"{other}/contents/key.txt", 403),
        (Purpose.LIST, "POST", f"{pull}/comments", 403),
        (Purpose.READ, "POST", f"{pull}/comments", 403),
        (Purpose.READ, "PUT", f"{own}/pulls/{place.pull.number}/merge", 403),
        (Purpose.WRITE, "GET", f"{own}/branches/main/protection", 403),
        (Purpose.WRITE, "POST", f"{own}/actions/runs/1/cancel", 403),
        (Purpose.RUNS, "POST", f"{pull}/comments", 403),
    ]
    async with aiohttp.ClientSession() as session:
        for purpose, method, path, status in tried:
            headers = {"Authorization": f"token {tokens[purpose].get_secret_value()}"}
            async with session.request(method, place.server.url + path, headers=headers, json={"body": "x"}) as answer:
                assert answer.status == status, (purpose, method, path)


async def test_shared_configuration_is_read_with_a_token_for_its_repository_alone(place: Place) -> None:
    """A leaked one reads no other repository; a public repository that the installation does not cover is read too."""
    owner, files = place.repository.installation_id, {".github/imq.yml": "labels: [ship]\n"}
    secrets = "/repos/acme/secrets/contents/key.txt"
    assert await place.gateway.organisation_configuration(place.repository) is None
    place.github.create_repository("ben/.github", files=files, private=False)
    uncovered = replace(place.repository, owner="ben")
    assert await place.gateway.organisation_configuration(uncovered) == "labels: [ship]\n"
    place.github.create_repository("acme/.github", files=files, private=True)
    place.github.create_repository("acme/secrets", files={"key.txt": "k\n"}, private=True)
    assert await place.gateway.organisation_configuration(place.repository) == "labels: [ship]\n"
    token = await place.gateway._connection._tokens.get(Scope(owner, None, Purpose.SHARED))
    headers = {"Authorization": f"token {token.get_secret_value()}"}
    async with aiohttp.ClientSession(place.server.url, headers=headers) as session, session.get(secrets) as answer:
        assert answer.status == 404


async def test_pull_request_is_read_whole_where_people_and_settings_are_told_to_those_who_may_push(
    place: Place,
) -> None:
    """The token that reads them may push."""
    place.handle.record.private = True
    place.github.behaviour.permissions_need_push = place.github.behaviour.merge_settings_need_push = True
    for offered in (True, False):
        place.github.behaviour.graphql = offered
        place.gateway.forget_rules(place.repository.id)
        seen = await place.gateway.snapshot(place.repository, place.pull.number, login="mona")
        assert seen.permission is Permission.WRITE
        assert seen.pull.methods == tuple(MergeMethod)
        place.gateway._unsupported_until = None


@pytest.mark.parametrize("shown", [True, False])
async def test_permission_is_read_whether_graphql_shows_collaborators_or_not(place: Place, shown: bool) -> None:
    """P4: who queued it is looked up by REST where GraphQL refuses an App (refined-github #8553)."""
    place.github.behaviour.collaborators_shown = shown
    for login, permission in (("mona", Permission.WRITE), ("nobody-here", Permission.NONE)):
        seen = await place.gateway.snapshot(place.repository, place.pull.number, login=login)
        assert seen.permission is permission


async def test_writing_token_is_followed_by_another_before_it_expires(place: Place) -> None:
    """Prepared by a sweep; until replicas know the new one the old one is used, so that no write waits."""
    gateway, repository = place.gateway, place.repository
    await gateway.installations()
    await gateway.prepare_writes(repository)
    await place.github.advance(timedelta(minutes=30))
    await gateway.prepare_writes(repository)
    await place.github.advance(timedelta(minutes=8))
    place.server.lag.set(timedelta(seconds=10), "token")
    await gateway.prepare_writes(repository)
    await gateway.permission(repository, "mona")
    await place.github.advance(timedelta(seconds=21))
    await gateway.permission(repository, "mona")
    await place.github.advance(timedelta(minutes=25))
    await gateway.permission(repository, "mona")
    assert {request.status for request in place.server.requests} <= {200, 201}
    tokens = [request for request in place.server.requests if request.template.endswith("/access_tokens")]
    assert len(tokens) == 2


async def test_repository_that_left_the_installation_is_not_found(place: Place) -> None:
    """GitHub makes no token for it: the same to IMQ as a token that does not reach it."""
    elsewhere = replace(place.repository, id=987654)
    with pytest.raises(NotFound, match="not accessible to the parent installation"):
        await place.gateway.pull_request(elsewhere, place.pull.number)


async def test_labels_comments_and_check_runs_are_written_and_found(place: Place) -> None:
    """What people read stands on the pull request once."""
    gateway, repository, number = place.gateway, place.repository, place.pull.number
    place.pull.label("to merge/now", by="mona")
    place.pull.label("to merge/now", by="mona")
    assert await gateway.labeled_pull_requests(repository, "to merge/now") == (number,)
    assert [each.number for each in await gateway.latest_pull_requests(repository)] == [number]
    labelling = await gateway.last_labeled_event(repository, number, "to merge/now")
    assert labelling is not None
    assert labelling.by == "mona"
    comment = await gateway.create_comment(repository, number, "queued <!-- mark -->")
    await gateway.update_comment(repository, comment, "merged <!-- mark -->")
    assert await gateway.find_comments(repository, number, "<!-- mark -->") == {comment: "merged <!-- mark -->"}
    assert [each.body for each in place.pull.comments] == ["merged <!-- mark -->"]
    fields = {"name": "IMQ", "head_sha": place.pull.head_sha, "external_id": "e1", "status": "in_progress"}
    run = await gateway.create_check_run(repository, fields)
    assert await gateway.find_check_run(repository, place.pull.head_sha, "IMQ", "e1") == run
    await gateway.update_check_run(
        repository, run, {"conclusion": "success", "output": {"title": "Merged", "summary": "s"}}
    )
    await gateway.remove_label(repository, number, "to merge/now")
    await gateway.remove_label(repository, number, "to merge/now")
    assert await gateway.labeled_pull_requests(repository, "to merge/now") == ()
    names = {report.name for report in await gateway.check_reports(repository, place.pull.head_sha, ())}
    assert "IMQ" not in names


async def test_webhooks_of_a_pull_requests_life_become_hints(place: Place) -> None:
    """Every delivery of the sandbox is accepted, and says what happened in the engine's words."""
    pull = place.pull
    before = pull.head_sha
    pull.label("merge-queue", by="mona")
    await place.run_ci()
    head = pull.push({"more.py": "more\n"}, by="mona")
    pull.convert_to_draft(by="mona")
    pull.unlabel("merge-queue", by="mona")
    place.handle.push("main", {"moved.py": "moved\n"}, "Move", by="mona")
    place.handle.add_ruleset("linear", linear_history=True)
    pull.close(by="mona")
    await place.run_ci()
    hints = {(hint.kind, hint.action): hint for hint in place.hints}
    labeled = hints[WebhookKind.LABELED, "labeled"]
    assert (labeled.number, labeled.label, labeled.head_sha) == (pull.number, "merge-queue", before)
    assert (labeled.repository_id, labeled.owner, labeled.name) == (place.repository.id, "acme", "widgets")
    assert (labeled.installation_id, labeled.sender) == (place.repository.installation_id, "mona")
    pushed = hints[WebhookKind.CONSENT, "synchronize"]
    assert (pushed.before, pushed.head_sha) == (before, head)
    assert {action for kind, action in hints if kind is WebhookKind.CONSENT} == {
        "synchronize",
        "converted_to_draft",
        "unlabeled",
        "closed",
    }
    checks = {(hint.check_name, hint.passed) for hint in place.hints if hint.kind is WebhookKind.CHECK}
    assert checks == {("ci/test", True), ("ci/lint", True)}
    moved = [hint.head_sha for hint in place.hints if (hint.kind, hint.branch) == (WebhookKind.BASE_MOVED, "main")]
    assert moved[-1] == place.handle.sha("main")
    assert WebhookKind.RULES in {kind for kind, _ in hints}
    assert len({hint.delivery for hint in place.hints}) == len(place.hints)
