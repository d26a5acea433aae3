"""GitHub's answers as facts: pull requests, comparisons, checks, rules, people."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bot.gateway import Gateway
from queue_engine.errors import Forbidden, NotFound, Unavailable
from queue_engine.facts import CheckState, Commit, Labelling, MergeMethod, Permission, RequiredCheck
from queue_engine.model import Repository
from queue_engine.port import GitHub, Letters
from tests.bot.answers import check_run, comparison, listed_commit, pull_request, status
from tests.bot.answers import repository as repository_answer
from tests.bot.conftest import APP_ID, ManualClock
from tests.bot.github_double import GitHubDouble, Says

REPO = "/repos/ada/engine"
PULL = f"{REPO}/pulls/3"
RUNS, STATUSES = f"{REPO}/commits/h1/check-runs", f"{REPO}/commits/h1/status"
BRANCH, RULES = f"{REPO}/branches/main", f"{REPO}/rules/branches/main"


def test_gateway_implements_both_ports(gateway: Gateway) -> None:
    """The engine and the notifications ask through their ports, and the type checker agrees."""
    ports: tuple[GitHub, Letters] = gateway, gateway
    names = {name for port in (GitHub, Letters) for name in vars(port) if not name.startswith("_")}
    assert names <= set(dir(ports[0]))


async def test_pull_request_open_becomes_facts(gateway: Gateway, github: GitHubDouble, repository: Repository) -> None:
    """Everything that decisions need is there; the trial merge commit is not mistaken for a landing."""
    github.on("GET", PULL, Says(pull_request()))
    facts = await gateway.pull_request(repository, 3)
    assert (facts.author, facts.assignees, facts.labels) == ("grace", ("ada",), frozenset({"merge-queue"}))
    assert (facts.open, facts.merged, facts.draft, facts.mergeable) == (True, False, False, True)
    assert (facts.head_sha, facts.head_repository, facts.base_branch) == ("h1", "grace/engine", "main")
    assert facts.merge_sha is None
    assert facts.methods == (MergeMethod.MERGE, MergeMethod.SQUASH, MergeMethod.REBASE)


async def test_pull_request_merged_names_what_landed(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """A merge whose answer was lost is found here."""
    github.on("GET", PULL, Says(pull_request(state="closed", merged=True, merge_commit_sha="landed", mergeable=None)))
    facts = await gateway.pull_request(repository, 3)
    assert (facts.open, facts.merged, facts.merge_sha) == (False, True, "landed")


async def test_pull_request_of_deleted_fork_and_account_is_still_read(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """`head.repo` and `user` are null then; one such pull request must not stall a repository."""
    head = {"sha": "h1", "ref": "holes", "repo": None}
    github.on("GET", PULL, Says(pull_request(head=head, user=None, mergeable=None)))
    facts = await gateway.pull_request(repository, 3)
    assert (facts.head_repository, facts.author, facts.mergeable) == (None, "ghost", None)


async def test_pull_request_methods_are_those_the_repository_allows(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """What is told to be forbidden is left out; what is not told is allowed."""
    base = {"sha": "b", "ref": "main", "repo": repository_answer(allow_merge_commit=False, allow_squash_merge=True)}
    github.on("GET", PULL, Says(pull_request(base=base)))
    assert (await gateway.pull_request(repository, 3)).methods == (MergeMethod.SQUASH, MergeMethod.REBASE)


@pytest.mark.parametrize("answer", [{"number": 3}, [], None, "text"])
async def test_answer_without_what_github_documents_raises_unavailable(
    gateway: Gateway, github: GitHubDouble, repository: Repository, answer: Any
) -> None:
    """An answer that is not GitHub's is trouble, never a crash of ours."""
    github.on("GET", PULL, Says(answer))
    with pytest.raises(Unavailable, match="not GitHub's"):
        await gateway.pull_request(repository, 3)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"permission": "write", "role_name": "maintain"}, Permission.MAINTAIN),
        ({"permission": "read", "role_name": "triage"}, Permission.TRIAGE),
        ({"permission": "write", "role_name": "Release engineer"}, Permission.WRITE),
        ({"permission": "admin"}, Permission.ADMIN),
        ({"permission": "none", "role_name": ""}, Permission.NONE),
    ],
)
async def test_permission_is_the_role_where_github_tells_it(
    gateway: Gateway, github: GitHubDouble, repository: Repository, answer: dict[str, str], expected: Permission
) -> None:
    """Triage and maintain stand in `role_name` only; an organisation's own role counts as what it extends."""
    github.on("GET", f"{REPO}/collaborators/grace/permission", Says(answer))
    assert await gateway.permission(repository, "grace") is expected


async def test_permission_of_a_stranger_is_none(gateway: Gateway, repository: Repository) -> None:
    """GitHub answers 404 for people it does not know."""
    assert await gateway.permission(repository, "nobody") is Permission.NONE


async def test_comparison_takes_the_head_from_the_same_answer(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """One request tells the base's tip, how far behind the head is, and the head's tree and parents."""
    path = f"{REPO}/compare/main...h1"
    github.on("GET", path, Says(comparison(listed_commit("h0", "m"), listed_commit("h1", "h0", "tip"), behind_by=2)))
    compared = await gateway.comparison(repository, "main", "h1")
    assert (compared.base_tip, compared.merge_base, compared.behind, compared.ahead) == ("tip", "fork-point", 2, 2)
    assert compared.head == Commit("h1", "tree-h1", ("h0", "tip"))
    assert "per_page" not in github.asked_for("GET", path)[0].query, "with paging the last commit is not the newest"


async def test_comparison_with_the_head_not_listed_reads_it(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """Commits are listed by date, at most 250: the head is not always the last of them."""
    github.on("GET", f"{REPO}/compare/main...h1", Says(comparison(listed_commit("h1"), listed_commit("younger"))))
    github.on(
        "GET", f"{REPO}/git/commits/h1", Says({"sha": "h1", "tree": {"sha": "t"}, "parents": [{"sha": "younger"}]})
    )
    assert (await gateway.comparison(repository, "main", "h1")).head == Commit("h1", "t", ("younger",))


async def test_comparison_with_nothing_ahead_finds_the_head_in_the_base(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """No commit is listed then; the head is the merge base, and no further request is needed."""
    github.on("GET", f"{REPO}/compare/main...h1", Says(comparison(merge_base_commit=listed_commit("h1", "h0"))))
    assert (await gateway.comparison(repository, "main", "h1")).head == Commit("h1", "tree-h1", ("h0",))


async def test_branch_name_with_slash_and_odd_characters_is_quoted(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """`release/1.0#é%2F` is one branch, and neither a path nor a fragment."""
    quoted = "release%2F1.0%23%C3%A9%252F"
    github.on("GET", f"{REPO}/compare/{quoted}...h1", Says(comparison(listed_commit("h1"))))
    github.on("GET", f"{REPO}/branches/{quoted}", Says({}))
    github.on("GET", f"{REPO}/rules/branches/{quoted}", Says([]))
    assert (await gateway.comparison(repository, "release/1.0#é%2F", "h1")).head.sha == "h1"
    assert (await gateway.branch_rules(repository, "release/1.0#é%2F")).required_checks == frozenset()


@pytest.mark.parametrize(
    ("run", "expected"),
    [({"status": "completed", "conclusion": word}, CheckState.PASSED) for word in ("success", "neutral", "skipped")]
    + [
        ({"status": "completed", "conclusion": word}, CheckState.FAILED)
        for word in ("failure", "timed_out", "cancelled", "action_required", "stale", "startup_failure", None)
    ]
    + [
        ({"status": word, "conclusion": None}, CheckState.PENDING)
        for word in ("queued", "in_progress", "waiting", "requested", "pending")
    ],
)
async def test_check_run_state_follows_githubs_words(
    gateway: Gateway, github: GitHubDouble, repository: Repository, run: dict[str, Any], expected: CheckState
) -> None:
    """Success, neutral and skipped pass; any other conclusion fails; what is not completed is pending."""
    github.on("GET", RUNS, Says({"total_count": 1, "check_runs": [check_run(**run)]}))
    github.on("GET", STATUSES, Says({"statuses": []}))
    (report,) = await gateway.check_reports(repository, "h1", ())
    assert report.state is expected
    assert report.conclusion == (run["conclusion"] or run["status"])


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("success", CheckState.PASSED),
        ("pending", CheckState.PENDING),
        ("failure", CheckState.FAILED),
        ("error", CheckState.FAILED),
    ],
)
async def test_commit_status_state_follows_githubs_words(
    gateway: Gateway, github: GitHubDouble, repository: Repository, word: str, expected: CheckState
) -> None:
    """A commit status has no App; its page is its target."""
    github.on("GET", RUNS, Says({"check_runs": []}))
    github.on("GET", STATUSES, Says({"statuses": [status(state=word, target_url="https://ci.example/1")]}))
    (report,) = await gateway.check_reports(repository, "h1", ())
    assert (report.name, report.app_id, report.state, report.url) == ("lint", None, expected, "https://ci.example/1")


@pytest.mark.parametrize(
    ("picture", "app_id"),
    [
        ("https://avatars.githubusercontent.com/in/15368?v=4", 15368),
        ("https://github.example.com/avatars/in/7", 7),
        ("https://avatars.githubusercontent.com/u/15368?v=4", None),
        ("https://avatars.githubusercontent.com/u/1?x=/in/15368", None),
        ("https://elsewhere.example/u/1/avatars/in/15368", None),
        (None, None),
    ],
)
async def test_commit_status_tells_its_app_by_its_picture_alone(
    gateway: Gateway, github: GitHubDouble, repository: Repository, picture: str | None, app_id: int | None
) -> None:
    """An App's picture is filed under its number, a person's under `/u/`; the combined status tells nothing else."""
    github.on("GET", RUNS, Says({"check_runs": []}))
    github.on("GET", STATUSES, Says({"statuses": [status(avatar_url=picture)]}))
    (report,) = await gateway.check_reports(repository, "h1", ())
    assert report.app_id == app_id


async def test_check_reports_newest_run_per_app_and_name_wins(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """A rerun's failure is not hidden by an older success (prow #337), nor by another App's check of that name."""
    runs = [
        check_run(id=7, conclusion="failure", html_url="https://github.example/7", started_at="2026-01-02T03:00:00Z"),
        check_run(id=6, conclusion="success", started_at="2026-01-02T03:00:01Z"),
        check_run(id=8, app={"id": 16}),
        check_run(id=9, name="IMQ", app={"id": APP_ID}),
    ]
    github.on("GET", RUNS, Says({"check_runs": runs}))
    github.on("GET", STATUSES, Says({"statuses": [status(id=1, context="test"), status(id=2, state="error")]}))
    reports = await gateway.check_reports(repository, "h1", ())
    assert [(report.name, report.app_id, report.state) for report in reports] == [
        ("lint", None, CheckState.FAILED),
        ("test", None, CheckState.PASSED),
        ("test", 15, CheckState.FAILED),
        ("test", 16, CheckState.PASSED),
    ]
    failed = reports[2]
    assert failed.url == "https://github.example/7"
    assert failed.started_at == datetime(2026, 1, 2, 3, 0, tzinfo=UTC)


async def test_check_reports_read_all_pages_of_both(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """The failing check may stand on the second page."""
    more = {"link": f'<{github.url}/more-runs?page=2>; rel="next", <{github.url}/more-runs?page=2>; rel="last"'}
    github.on("GET", RUNS, Says({"check_runs": [check_run()]}, headers=more))
    github.on("GET", "/more-runs", Says({"check_runs": [check_run(id=2, name="slow", conclusion="failure")]}))
    more = {"link": f'<{github.url}/more-statuses>; rel="next"'}
    github.on("GET", STATUSES, Says({"statuses": [status()]}, headers=more))
    github.on("GET", "/more-statuses", Says({"statuses": [status(id=2, context="style")]}))
    assert [report.name for report in await gateway.check_reports(repository, "h1", ())] == [
        "lint",
        "slow",
        "style",
        "test",
    ]
    assert github.asked_for("GET", RUNS)[0].query == {"filter": "latest", "per_page": "100"}


async def test_check_reports_half_failing_raises_one_of_our_errors(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """Half of the truth is none."""
    github.on("GET", RUNS, Says({"check_runs": []}))
    with pytest.raises(NotFound):
        await gateway.check_reports(repository, "h1", ())


@pytest.mark.parametrize(
    ("required", "asked"),
    [
        ((RequiredCheck("test", 15),), 0),
        ((RequiredCheck("test", 15), RequiredCheck("lint", None)), 1),
        ((RequiredCheck("test", 15), RequiredCheck("slow", 15)), 1),
        ((RequiredCheck("test", 16),), 1),
        ((), 1),
    ],
)
async def test_check_reports_leave_statuses_out_only_where_none_can_matter(
    gateway: Gateway, github: GitHubDouble, repository: Repository, required: tuple[RequiredCheck, ...], asked: int
) -> None:
    """A request is saved when every required check is bound to an App and has a run of it."""
    github.on("GET", RUNS, Says({"check_runs": [check_run()]}))
    github.on("GET", STATUSES, Says({"statuses": [status()]}))
    reports = await gateway.check_reports(repository, "h1", required)
    assert len(github.asked_for("GET", STATUSES)) == asked
    assert len(reports) == 1 + asked


def _protected(**parts: Any) -> dict[str, Any]:
    checks = [{"context": "test", "app_id": 15}, {"context": "lint", "app_id": -1}, {"context": "docs", "app_id": None}]
    required = {"enforcement_level": "everyone", "contexts": ["test", "lint", "docs", "old"], "checks": checks, **parts}
    return {"protected": True, "protection": {"enabled": True, "required_status_checks": required}}


async def test_branch_rules_are_classic_protection_and_rulesets_together(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """Every page of rules counts; null and -1 mean any source; a bare context is a check from any source."""
    ruled = {"required_status_checks": [{"context": "test"}, {"context": "deep", "integration_id": 16}]}
    link = {"link": f'<{github.url}/more-rules>; rel="next"'}
    github.on("GET", BRANCH, Says(_protected()))
    github.on("GET", RULES, Says([{"type": "required_status_checks", "parameters": ruled}], headers=link))
    github.on("GET", "/more-rules", Says([{"type": "merge_queue"}, {"type": "required_linear_history"}]))
    rules = await gateway.branch_rules(repository, "main")
    assert rules.required_checks == {
        RequiredCheck("test", 15),
        RequiredCheck("lint", None),
        RequiredCheck("docs", None),
        RequiredCheck("old", None),
        RequiredCheck("test", None),
        RequiredCheck("deep", 16),
    }
    assert (rules.native_queue, rules.linear_history) == (True, True)


@pytest.mark.parametrize(
    "branch",
    [
        {"protected": False},
        {"protection": {"enabled": False}},
        {"protection": {"enabled": True, "required_status_checks": None}},
        _protected(enforcement_level="off"),
    ],
)
async def test_branch_without_protection_demands_nothing(
    gateway: Gateway, github: GitHubDouble, repository: Repository, branch: dict[str, Any]
) -> None:
    """Protection that is off is none."""
    github.on("GET", BRANCH, Says(branch))
    github.on("GET", RULES, Says([{"type": "deletion"}]))
    rules = await gateway.branch_rules(repository, "main")
    assert (rules.required_checks, rules.native_queue, rules.linear_history) == (frozenset(), False, False)


async def test_branch_unknown_raises_not_found(gateway: Gateway, repository: Repository) -> None:
    """A base branch that was deleted is no branch without rules."""
    with pytest.raises(NotFound):
        await gateway.branch_rules(repository, "main")


@pytest.mark.parametrize(
    "says",
    [
        Says({"message": "Not Found"}, 404),
        Says({"message": "Upgrade to GitHub Pro or make this repository public to enable this feature."}, 403),
    ],
)
async def test_branch_where_rulesets_do_not_exist_has_classic_rules_only(
    gateway: Gateway, github: GitHubDouble, repository: Repository, says: Says
) -> None:
    """Older Enterprise Servers know no rulesets; private repositories on the free plan are refused them."""
    github.on("GET", BRANCH, Says(_protected()))
    github.on("GET", RULES, says)
    assert RequiredCheck("test", 15) in (await gateway.branch_rules(repository, "main")).required_checks


async def test_rulesets_forbidden_for_another_reason_raises_forbidden(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """Rules that cannot be read must not count as rules that do not exist."""
    github.on("GET", BRANCH, Says({}))
    github.on("GET", RULES, Says({"message": "Resource not accessible by integration"}, 403))
    with pytest.raises(Forbidden):
        await gateway.branch_rules(repository, "main")


async def test_branch_rules_are_remembered_until_old_or_forgotten(
    gateway: Gateway, github: GitHubDouble, repository: Repository, clock: ManualClock
) -> None:
    """Two requests in two hours however many pull requests land; a webhook ends it at once."""
    github.on("GET", BRANCH, Says({}))
    github.on("GET", RULES, Says([]))

    async def reads() -> int:
        await asyncio.gather(*(gateway.branch_rules(repository, "main") for _ in range(3)))
        return len(github.asked_for("GET", BRANCH))

    assert [await reads(), await reads()] == [1, 1]
    clock.instant += timedelta(hours=2, seconds=1)
    assert [await reads(), await reads()] == [2, 2]
    gateway.forget_rules(repository.id)
    assert [await reads(), await reads()] == [3, 3]
    gateway.forget_rules(repository.id + 1)
    assert await reads() == 3


async def test_labelled_pull_requests_leave_issues_out(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """Issues carry labels too; the label's name is one query value whatever it contains."""
    path = f"{REPO}/issues"
    github.on(
        "GET",
        path,
        Says(
            [
                {"number": 1, "updated_at": "2026-01-01T00:00:00Z"},
                {"number": 2, "updated_at": "2026-01-01T01:00:00Z", "pull_request": {"url": "x"}},
            ]
        ),
    )
    found = await gateway.labelled_pull_requests(repository, "merge & queue")
    assert found == (2,)
    query = github.asked_for("GET", path)[0].query
    assert (query["labels"], query["state"], query["sort"], query["direction"]) == (
        "merge & queue",
        "open",
        "created",
        "asc",
    )


async def test_latest_pull_requests_are_one_page_of_open_ones(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """A list tells neither `mergeable` nor `merged`; one request is all it costs."""
    listed = {key: value for key, value in pull_request().items() if key not in ("mergeable", "merged")}
    link = {"link": f'<{github.url}/more>; rel="next"'}
    github.on("GET", f"{REPO}/pulls", Says([listed], headers=link))
    (found,) = await gateway.latest_pull_requests(repository)
    assert (found.number, found.open, found.merged, found.mergeable) == (3, True, False, None)
    query = github.asked_for("GET", f"{REPO}/pulls")[0].query
    assert query == {"state": "open", "sort": "updated", "direction": "desc", "per_page": "100"}


LABELLED_AT = datetime(2026, 1, 5, 9, tzinfo=UTC)


def _labeled(actor: str | None, label: str = "merge-queue", event: str = "labeled") -> dict[str, Any]:
    return {
        "event": event,
        "created_at": "2026-01-05T09:00:00Z",
        "label": {"name": label},
        "actor": {"login": actor} if actor else None,
    }


async def test_last_labelling_is_the_last_who_set_it(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """An earlier setter's right does not serve the later one; other labels and removals do not count."""
    events = [
        _labeled("ada"),
        _labeled("grace", "Merge-Queue"),
        _labeled("eve", "bug"),
        _labeled("eve", event="unlabeled"),
        {"event": "renamed", "created_at": "2026-01-05T09:00:00Z", "actor": None},
    ]
    github.on("GET", f"{REPO}/issues/3/events", Says(events))
    assert await gateway.last_labelling(repository, 3, "merge-queue") == Labelling("grace", LABELLED_AT)


async def test_last_labelling_is_read_from_the_last_page_backwards(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """Events come oldest first: of a thousand of them the newest are read."""
    events, pages = f"{REPO}/issues/3/events", f"{github.url}/events"
    last = {"link": f'<{pages}/2>; rel="next", <{pages}/3>; rel="last"'}
    github.on("GET", events, Says([_labeled("ada")], headers=last))
    github.on("GET", "/events/3", Says([], headers={"link": f'<{pages}/2>; rel="prev"'}))
    github.on("GET", "/events/2", Says([_labeled("grace")], headers={"link": f'<{pages}/1>; rel="prev"'}))
    assert await gateway.last_labelling(repository, 3, "merge-queue") == Labelling("grace", LABELLED_AT)
    assert github.asked_for("GET", "/events/1") == []


@pytest.mark.parametrize(("events", "told"), [([], None), ([_labeled(None)], Labelling(None, LABELLED_AT))])
async def test_last_labelling_unknown_is_none(
    gateway: Gateway, github: GitHubDouble, repository: Repository, events: list[Any], told: Labelling | None
) -> None:
    """Old events are lost sometimes, and accounts are deleted."""
    github.on("GET", f"{REPO}/issues/3/events", Says(events))
    assert await gateway.last_labelling(repository, 3, "merge-queue") == told


async def test_repositories_are_those_of_all_installations_that_serve(gateway: Gateway, github: GitHubDouble) -> None:
    """Suspended installations are not asked; one that vanished hides no other; archived repositories stay out."""
    installations = [{"id": 1}, {"id": 2, "suspended_at": "2026-01-01T00:00:00Z"}, {"id": 3}]
    more = {"link": f'<{github.url}/more>; rel="next"'}
    github.on("GET", "/app/installations", Says(installations, headers=more))
    github.on("GET", "/more", Says([{"id": 4}]))
    github.on("POST", "/app/installations/3/access_tokens", Says({"message": "Not Found"}, 404))
    listed = {"repositories": [repository_answer(id=5), repository_answer(id=6, archived=True)]}
    github.on("GET", "/installation/repositories", Says(listed))
    assert await gateway.repositories() == (
        Repository(5, "ada", "engine", 1),
        Repository(5, "ada", "engine", 4),
    )


async def test_repositories_while_github_is_in_trouble_raises(gateway: Gateway, github: GitHubDouble) -> None:
    """An incomplete list must not look like a complete one."""
    github.on("GET", "/app/installations", Says([{"id": 1}]))
    github.on("GET", "/installation/repositories", Says(status=502, body=b""))
    with pytest.raises(Unavailable):
        await gateway.repositories()
