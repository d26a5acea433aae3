"""How little each of IMQ's tokens may do."""

from typing import Any

import pytest

from bot.gateway.http.client import Call
from bot.gateway.http.scopes import NEEDED, OPTIONAL, Purpose, Scope, requested_permissions, scope_of, without
from bot.registration.manifest import read_manifest
from queue_engine.domain.model import Repository

REPOSITORY = Repository(5, "ada", "engine", 9)
GRANTED = dict(read_manifest().permissions)


def test_scope_of_a_call_is_one_repository_and_what_it_does() -> None:
    """Only lists of a whole installation, and what its owner shares, are not narrowed to a repository."""
    cases: list[tuple[Repository | int, str, str, Scope]] = [
        (REPOSITORY, "GET", "/repos/{owner}/{repo}/pulls/{pull_number}", Scope(9, 5, Purpose.READ)),
        (REPOSITORY, "GET", "/repos/{owner}/{repo}/contents/.github/imq.yml", Scope(9, 5, Purpose.READ)),
        (REPOSITORY, "GET", "/repos/{owner}/{repo}/actions/runs{?head_sha}", Scope(9, 5, Purpose.READ)),
        (REPOSITORY, "GET", "/repos/{owner}/{repo}", Scope(9, 5, Purpose.WRITE)),
        (REPOSITORY, "GET", "/repos/{owner}/{repo}/rulesets/{ruleset_id}", Scope(9, 5, Purpose.WRITE)),
        (REPOSITORY, "GET", "/repos/{owner}/{repo}/collaborators/{username}/permission", Scope(9, 5, Purpose.WRITE)),
        (
            REPOSITORY,
            "GET",
            "/repositories/{repository_id}/collaborators/{username}/permission",
            Scope(9, 5, Purpose.WRITE),
        ),
        (REPOSITORY, "POST", "/graphql", Scope(9, 5, Purpose.WRITE)),
        (REPOSITORY, "PUT", "/repos/{owner}/{repo}/pulls/{pull_number}/merge", Scope(9, 5, Purpose.WRITE)),
        (REPOSITORY, "POST", "/repos/{owner}/{repo}/actions/runs/{run_id}/cancel", Scope(9, 5, Purpose.RUNS)),
        (REPOSITORY, "POST", "/repos/{owner}/{repo}/merges", Scope(9, 5, Purpose.WRITE)),
        (
            REPOSITORY,
            "POST",
            "/repos/{owner}/{repo}/actions/workflows/{workflow_id}/dispatches",
            Scope(9, 5, Purpose.RUNS),
        ),
        (9, "GET", "/installation/repositories?per_page=100", Scope(9, None, Purpose.LIST)),
        (9, "GET", "/repos/{owner}/{repo}/contents/.github/imq.yml", Scope(9, None, Purpose.SHARED)),
    ]
    for target, method, template, scope in cases:
        assert scope_of(target, Call(method, template)) == scope, (target, method, template, scope)


def test_purposes_that_reach_a_whole_installation_change_nothing() -> None:
    """Neither do those that read one repository."""
    for purpose in (Purpose.READ, Purpose.LIST, Purpose.SHARED):
        assert set(NEEDED[purpose].values()) == {"read"}


def test_purposes_ask_for_nothing_that_the_app_does_not_have() -> None:
    """Together they are the manifest's permissions, and those which operators may add."""
    levels = {"read": 0, "write": 1}
    most: dict[str, str] = {}
    for needed in NEEDED.values():
        for name, level in needed.items():
            most[name] = max(level, most.get(name, "read"), key=levels.__getitem__)
    assert most == GRANTED | {"members": "read", "workflows": "write"}


@pytest.mark.parametrize(
    ("purpose", "granted", "asked"),
    [
        (Purpose.RUNS, {"metadata": "read", "contents": "write"}, {"metadata": "read"}),
        (Purpose.RUNS, {"metadata": "read", "actions": "read"}, {"metadata": "read", "actions": "read"}),
        (Purpose.RUNS, {"actions": "of another kind"}, {"metadata": "read", "actions": "write"}),
        (Purpose.RUNS, None, {"metadata": "read", "actions": "write"}),
        (Purpose.LIST, {}, {"metadata": "read"}),
        (Purpose.LIST, {"metadata": "read", "issues": "write", "pull_requests": "write", "secrets": "write"},
         {"metadata": "read", "issues": "read", "pull_requests": "read"}),
    ],
)  # fmt: skip
def test_permissions_asked_for_are_never_more_than_is_granted(
    purpose: Purpose, granted: dict[str, str] | None, asked: dict[str, Any]
) -> None:
    """GitHub would refuse the whole token; and one without any permission named would have all of them."""
    assert requested_permissions(Scope(9, 5, purpose), granted) == asked


def test_optional_permissions_are_named_with_what_stops_working() -> None:
    """None is missed in silence; a weaker level counts as missing."""
    assert without(GRANTED) == {name: OPTIONAL[name].without for name in ("members", "workflows")}
    less = {name: level for name, level in GRANTED.items() if name != "administration"} | {"actions": "read"}
    assert set(without(less)) == {"actions", "administration", "members", "workflows"}
    assert without(GRANTED | {"members": "read", "workflows": "write"}) == {}
