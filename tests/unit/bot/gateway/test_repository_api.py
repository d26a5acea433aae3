"""What rulesets say beside checks, and what stands around a landing: reviews, co-authors, branches."""

from typing import Any

import pytest

from bot.gateway import Gateway
from queue_engine.domain.errors import HeadConflict, Invalid, Unavailable
from queue_engine.domain.facts import Branch, CommitHistory, MergeMethod, Review, ReviewState
from queue_engine.domain.model import Repository
from tests.unit.bot.github_double import LACKING, GitHubDouble, Says

REPO = "/repos/ada/engine"
BRANCH, RULES, RULESET = f"{REPO}/branches/main", f"{REPO}/rules/branches/main", f"{REPO}/rulesets/7"
MERGE, SQUASH, REBASE = MergeMethod


def reviewed(**parameters: Any) -> dict[str, Any]:
    return {"type": "pull_request", "parameters": parameters, "ruleset_id": 9}


async def test_branch_rules_of_several_rulesets_are_the_strictest_of_each(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """A repository's and its organisation's hold together."""
    github.on("GET", BRANCH, Says({}))
    rules = [
        reviewed(required_approving_review_count=1, allowed_merge_methods=["merge", "squash"]),
        reviewed(
            required_approving_review_count=2,
            require_code_owner_review=True,
            required_review_thread_resolution=True,
            allowed_merge_methods=["squash", "rebase"],
        ),
        {"type": "required_signatures"},
        {"type": "required_deployments", "parameters": {"required_deployment_environments": ["staging", "preview"]}},
        {"type": "required_deployments", "parameters": {"required_deployment_environments": ["staging"]}},
    ]
    github.on("GET", RULES, Says(rules))
    found = await gateway.branch_rules(repository, "main")
    assert (found.approvals, found.code_owners, found.conversations, found.signatures) == (2, True, True, True)
    assert (found.methods, found.deployments) == (frozenset({SQUASH}), ("preview", "staging"))
    assert not found.locked


async def test_branch_rules_that_say_nothing_of_reviews_demand_none(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """Old servers leave the parameters out."""
    github.on("GET", BRANCH, Says({}))
    github.on("GET", RULES, Says([{"type": "pull_request"}, reviewed()]))
    found = await gateway.branch_rules(repository, "main")
    assert (found.approvals, found.code_owners, found.conversations, found.methods) == (0, False, False, None)


@pytest.mark.parametrize("parameters", [{"required_approving_review_count": "many"}, {"allowed_merge_methods": 5}])
async def test_branch_rules_that_are_not_githubs_are_trouble(
    gateway: Gateway, github: GitHubDouble, repository: Repository, parameters: dict[str, Any]
) -> None:
    """P1: an answer that cannot be parsed does not count as empty."""
    github.on("GET", BRANCH, Says({}))
    github.on("GET", RULES, Says([reviewed(**parameters)]))
    with pytest.raises(Unavailable, match="not GitHub's"):
        await gateway.branch_rules(repository, "main")


@pytest.mark.parametrize(
    ("says", "holds"),
    [
        (Says({"current_user_can_bypass": "never"}), True),
        (Says({}), True),
        (Says({"message": "Not Found"}, 404), True),
        (Says({"message": "Resource not accessible by integration"}, 403, LACKING), True),
        (Says({"current_user_can_bypass": "always"}), False),
        (Says({"current_user_can_bypass": "pull_requests_only"}), False),
    ],
)
async def test_update_rule_does_not_lock_a_branch_for_an_app_that_may_bypass_it(
    gateway: Gateway, github: GitHubDouble, repository: Repository, says: Says, holds: bool
) -> None:
    """ "Only the queue may update main" is set up that way. What a change must be like holds all the same."""
    github.on("GET", BRANCH, Says({}))
    rules = [{"type": kind, "ruleset_id": 7} for kind in ("update", "merge_queue", "required_linear_history")]
    github.on("GET", RULES, Says(rules))
    github.on("GET", RULESET, says)
    found = await gateway.branch_rules(repository, "main")
    assert (found.locked, found.native_queue, found.linear_history) == (holds, holds, True)
    assert len(github.asked_for("GET", RULESET)) == 1


async def test_reviews_are_read_oldest_first_with_whether_their_authors_may_write(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """Review states that GitHub adds later count as comments; a deleted account is no reviewer."""
    reviews = [
        {"user": {"login": "bob"}, "state": "CHANGES_REQUESTED", "commit_id": "h1", "author_association": "MEMBER"},
        {"user": None, "state": "APPROVED", "commit_id": None, "author_association": "NONE"},
        {"user": {"login": "eve"}, "state": "APPLAUDED"},
    ]
    github.on("GET", f"{REPO}/pulls/3/reviews", Says(reviews))
    assert await gateway.reviews(repository, 3) == (
        Review("bob", ReviewState.CHANGES_REQUESTED, True, commit="h1"),
        Review(None, ReviewState.APPROVED, False),
        Review("eve", ReviewState.COMMENTED, False),
    )


async def test_co_authors_are_everybody_else_once_and_none_for_a_merge(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """The pull request's author already authors the commit; IMQ's updates add no co-author."""

    def commit(name: str, login: str | None, parents: int = 1, message: str = "") -> dict[str, Any]:
        author = {"name": name, "email": f"{name}@example.org"}
        user = None if login is None else {"login": login}
        git = {"author": author, "message": message}
        return {"commit": git, "author": user, "parents": [{"sha": str(n)} for n in range(parents)]}

    commits = [commit("Ada", "ada"), commit("Bob", "bob"), commit("Eve", None), commit("Bob", "bob")]
    github.on("GET", f"{REPO}/pulls/3/commits", Says([*commits, commit("imq", "imq[bot]", parents=2)]))
    texts = await gateway.commit_texts(repository, 3, author="ada")
    assert texts == CommitHistory(("Bob <Bob@example.org>", "Eve <Eve@example.org>"))
    pair = (
        "Co-authored-by: no title <x@x>\n\nCo-authored-by: body <x@x>\n\nSigned-off-by: Bob <b@x>\r\n"
        "co-authored-by:  Pair Partner <Pair@x.org> \nCo-authored-by: Ada <ADA@example.org>\n"
        "Co-authored-by: bob <bob@EXAMPLE.org>\nCo-authored-by: <> <y@y> <z@z>\n"
    )
    nameless = {"commit": {"author": {"date": "2026-01-02T03:00:00Z"}, "message": ""}, "author": {}, "parents": []}
    only_title = "Co-authored-by: only a title <x@x>"
    authored = [nameless, commit("Ada", "Ada", message=pair), commit("Bob", "bob", message=only_title)]
    github.on("GET", f"{REPO}/pulls/4/commits", Says(authored))
    texts = await gateway.commit_texts(repository, 4, author="ada")
    assert texts.co_authors == ("Pair Partner <Pair@x.org>", "bob <bob@EXAMPLE.org>")
    assert texts.titles == ("Co-authored-by: no title <x@x>", only_title)


async def test_unsigned_commits_are_those_of_which_github_says_so(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """No pull request is rejected for a signature that GitHub could not check, or says nothing of."""

    def commit(sha: str, **verification: Any) -> dict[str, Any]:
        return {"sha": sha, "commit": {"verification": verification} if verification else {}}

    commits = [
        commit("signed", verified=True, reason="valid"),
        commit("unsigned", verified=False, reason="unsigned"),
        commit("old server"),
        commit("no answer", verified=False, reason="gpgverify_unavailable"),
        commit("trouble", verified=False, reason="gpgverify_error"),
        commit("wrong key", verified=False, reason="unknown_key"),
    ]
    github.on("GET", f"{REPO}/pulls/3/commits", Says(commits))
    assert await gateway.unsigned_commits(repository, 3) == ("unsigned", "wrong key")


async def test_branch_tip_is_its_commit_or_none_without_the_branch(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """One that is gone is no error."""
    github.on("GET", f"{REPO}/branches/topic%2Fone", Says({"commit": {"sha": "h1"}, "protected": True}))
    assert await gateway.branch_tip(repository, "topic/one") == Branch("h1", True)
    assert await gateway.branch_tip(repository, "gone") is None


@pytest.mark.parametrize(
    ("based", "made", "used", "asked"),
    [([{"number": 4}], [], True, 1), ([], [{"number": 5}], True, 2), ([], [], False, 2)],
)
async def test_branch_is_in_use_by_what_is_based_on_it_or_made_of_it(
    gateway: Gateway,
    github: GitHubDouble,
    repository: Repository,
    based: list[dict[str, int]],
    made: list[dict[str, int]],
    used: bool,
    asked: int,
) -> None:
    """Its end would close either of them."""
    github.on("GET", f"{REPO}/pulls", Says(based), Says(made))
    assert await gateway.is_in_use(repository, "topic") is used
    queries = [request.query for request in github.asked_for("GET", f"{REPO}/pulls")]
    assert [query.get("base") or query.get("head") for query in queries] == ["topic", "ada:topic"][:asked]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([{"type": "file", "name": "rules.yml", "path": ".github/imq.yml/rules.yml"}], "a directory, not a file"),
        ({"type": "symlink", "target": "/etc/imq.yml"}, "a symlink, not a file"),
        ({"type": "submodule", "submodule_git_url": "git://github.com/ada/rules.git"}, "a submodule, not a file"),
        ({"type": "file", "encoding": "none", "content": ""}, "no file that can be read"),
        ({"type": "file", "encoding": "base64", "content": "/w=="}, "not written in UTF-8"),
    ],
)
async def test_configuration_that_is_no_text_file_is_invalid(
    gateway: Gateway, github: GitHubDouble, repository: Repository, answer: object, words: str
) -> None:
    """The repository has a fault that people can fix; it is no passing outage of GitHub."""
    github.on("GET", f"{REPO}/contents/.github/imq.yml", Says(answer))
    github.on("GET", "/repos/ada/.github/contents/.github/imq.yml", Says(answer))
    with pytest.raises(Invalid, match=f"^.github/imq.yml is {words}$"):
        await gateway.configuration(repository, "main")
    with pytest.raises(Invalid, match=words):
        await gateway.organisation_configuration(repository)


async def test_rerun_asks_for_the_failed_jobs_of_a_workflow_run(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """What passed is not run again."""
    path = f"{REPO}/actions/runs/7/rerun-failed-jobs"
    github.on("POST", path, Says({}, 201))
    await gateway.rerun(repository, 7)
    assert len(github.asked_for("POST", path)) == 1


async def test_workflow_runs_name_who_began_each_and_who_ran_it_last(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """Older servers do not name who ran it again; a deleted account has no login; times are in UTC."""
    begun = {"id": 1, "workflow_id": 2, "event": "push", "head_sha": "h", "status": "queued"}
    begun |= {"created_at": "2026-01-05T10:00:00+01:00"}
    runs = [
        begun | {"actor": {"login": "imq[bot]"}, "triggering_actor": {"login": "mona"}},
        begun | {"actor": {"login": "imq[bot]"}},
        begun | {"actor": None, "triggering_actor": None, "status": "completed"},
    ]
    github.on("GET", f"{REPO}/actions/runs", Says({"total_count": 3, "workflow_runs": runs}))
    found = await gateway.workflow_runs(repository, "h")
    assert [(run.begun_by, run.last_run_by, run.ended) for run in found] == [
        ("imq[bot]", "mona", False),
        ("imq[bot]", "imq[bot]", False),
        ("", "", True),
    ]
    assert found[0].created_at.isoformat() == "2026-01-05T09:00:00+00:00"
    github.on("POST", f"{REPO}/actions/runs/1/cancel", Says({"message": "completed"}, 409))
    with pytest.raises(HeadConflict):
        await gateway.cancel_run(repository, 1)


TEXT = "trigger_labels: ship\n"
FILE = {"isBinary": False, "isTruncated": False, "text": TEXT}


@pytest.mark.parametrize(
    ("commit", "file", "shown"),
    [
        ("c1", FILE, True),
        ("c1", None, True),
        (None, None, False),
        ("c1", FILE | {"text": "imq.yml"}, False),
        ("c1", FILE | {"isTruncated": True}, False),
        ("c1", FILE | {"isBinary": True}, False),
        ("c1", {}, False),
    ],
)
async def test_configuration_counts_as_known_only_where_the_answer_has_one_meaning(
    gateway: Gateway, github: GitHubDouble, repository: Repository, commit: str | None, file: Any, shown: bool
) -> None:
    """P1: a replica without the commit has no file either, and a link's target is no text of a configuration."""
    part = {"databaseId": repository.id, "commit": commit and {"oid": commit}, "file": file}
    github.on("POST", "/graphql", Says({"data": {"repository_0": part}}))
    expected = {repository.id: TEXT if file else None} if shown else {}
    assert await gateway.configurations([repository]) == expected


@pytest.mark.parametrize(
    "data", [{"repository_0": None}, {"repository_0": {"databaseId": 99, "commit": {"oid": "c1"}, "file": None}}]
)
async def test_repository_that_is_hidden_or_another_one_has_no_known_configuration(
    gateway: Gateway, github: GitHubDouble, repository: Repository, data: dict[str, Any]
) -> None:
    """A name may belong to another repository by now."""
    github.on("POST", "/graphql", Says({"data": data}))
    assert await gateway.configurations([repository]) == {}


@pytest.mark.parametrize("path", [["repository_0", "file"], None])
async def test_file_that_is_null_by_an_error_is_not_a_missing_file(
    gateway: Gateway, github: GitHubDouble, repository: Repository, path: list[str] | None
) -> None:
    """P4: by the defaults IMQ would queue what the team's configuration refuses."""
    part = {"databaseId": repository.id, "commit": {"oid": "c1"}, "file": None}
    error = {"message": "Something went wrong"} | ({"path": path} if path else {})
    github.on("POST", "/graphql", Says({"data": {"repository_0": part}, "errors": [error]}))
    if path is None:
        with pytest.raises(Unavailable):
            await gateway.configurations([repository])
    else:
        assert await gateway.configurations([repository]) == {}
