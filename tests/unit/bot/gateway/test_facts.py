"""GitHub's answers about a pull request, who may act on it and how it compares, as the facts that they tell."""

from typing import Any

import pytest

from bot.gateway import Gateway
from queue_engine.domain.errors import NotFound, Unavailable
from queue_engine.domain.facts import Commit, MergeMethod, Permission
from queue_engine.domain.model import Repository
from queue_engine.domain.port import Comments, GitHub
from tests.unit.bot.answers import comparison, listed_commit, pull_request
from tests.unit.bot.answers import repository as repository_answer
from tests.unit.bot.github_double import GitHubDouble, Says

REPO = "/repos/ada/engine"
PULL = f"{REPO}/pulls/3"


def test_gateway_implements_both_ports(gateway: Gateway) -> None:
    """The engine and the notifications ask through their ports, and the type checker agrees."""
    ports: tuple[GitHub, Comments] = gateway, gateway
    names = {name for port in (GitHub, Comments) for name in vars(port) if not name.startswith("_")}
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
    """IMQ omits a method that GitHub forbids, and allows a method that the answer does not name."""
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
async def test_permission_is_the_role_where_github_names_it(
    gateway: Gateway, github: GitHubDouble, repository: Repository, answer: dict[str, str], expected: Permission
) -> None:
    """Only `role_name` has triage and maintain; an organisation's own role counts as the role it extends."""
    github.on("GET", f"{REPO}/collaborators/grace/permission", Says(answer))
    assert await gateway.permission(repository, "grace") is expected


async def test_permission_of_a_stranger_is_none(gateway: Gateway, repository: Repository) -> None:
    """GitHub answers 404 for people it does not know."""
    assert await gateway.permission(repository, "nobody") is Permission.NONE


async def test_comparison_takes_the_head_from_the_same_answer(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """One request returns the base's tip, how far behind the head is, and the head's tree and parents."""
    path = f"{REPO}/compare/main...h1"
    github.on("GET", path, Says(comparison(listed_commit("h0", "m"), listed_commit("h1", "h0", "tip"), behind_by=2)))
    compared = await gateway.comparison(repository, "main", "h1")
    assert (compared.base_tip, compared.merge_base, compared.behind) == ("tip", "fork-point", 2)
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


NO_DIFF = {"message": "Sorry, this diff is taking too long to generate."}


def history(*commits: tuple[str, ...]) -> Says:
    """A list of commits, each with its parents, newest first."""
    return Says([listed_commit(sha, *parents) for sha, *parents in commits])


@pytest.mark.parametrize("status", [422, 500, 503])
@pytest.mark.parametrize(
    ("of_head", "of_base", "expected"),
    [
        # An update of ours: the base's tip is its second parent.
        ([("h1", "h0", "tip"), ("h0", "m"), ("tip", "m"), ("m",)], [("tip", "m"), ("m",)], ("tip", "tip", 0)),
        # The base went on by a merge of two commits.
        ([("h1", "m"), ("m",)], [("tip", "m", "x"), ("x", "m"), ("m",)], ("tip", "m", 2)),
        # Nothing is ahead.
        ([("h1", "m"), ("m",)], [("h1", "m"), ("m",)], ("h1", "h1", 0)),
    ],
)
async def test_comparison_whose_diff_github_cannot_make_is_made_of_commits(
    gateway: Gateway,
    github: GitHubDouble,
    repository: Repository,
    status: int,
    of_head: list[tuple[str, ...]],
    of_base: list[tuple[str, ...]],
    expected: tuple[str, str, int],
) -> None:
    """P5: a large change lands as well: two lists of commits tell tip, merge base, how far behind, and the head."""
    github.on("GET", f"{REPO}/compare/main...h1", Says(NO_DIFF, status))
    github.on("GET", f"{REPO}/commits", history(*of_head), history(*of_base))
    compared = await gateway.comparison(repository, "main", "h1")
    assert (compared.base_tip, compared.merge_base, compared.behind) == expected
    assert compared.head == Commit("h1", "tree-h1", of_head[0][1:])
    assert [asked.query["sha"] for asked in github.asked_for("GET", f"{REPO}/commits")] == ["h1", "main"]


@pytest.mark.parametrize(
    ("of_head", "of_base"),
    [([("h1", "a")], [("tip", "b")]), ([("other",), ("m",)], [("m",)]), ([], [("tip",)]), ([("h1",)], [])],
)
async def test_comparison_that_commits_do_not_prove_either_is_unavailable(
    gateway: Gateway,
    github: GitHubDouble,
    repository: Repository,
    of_head: list[tuple[str, ...]],
    of_base: list[tuple[str, ...]],
) -> None:
    """P1: nothing is concluded from lists that have no commit in common, or are not of that head."""
    github.on("GET", f"{REPO}/compare/main...h1", Says(NO_DIFF, 422))
    github.on("GET", f"{REPO}/commits", history(*of_head), history(*of_base))
    with pytest.raises(Unavailable):
        await gateway.comparison(repository, "main", "h1")


async def test_comparison_of_a_missing_branch_is_not_made_of_commits(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """A 404 says that there is nothing to compare."""
    with pytest.raises(NotFound):
        await gateway.comparison(repository, "main", "h1")
    assert github.asked_for("GET", f"{REPO}/commits") == []


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
