"""Every write of the ports is refused in a repository in shadow mode, also one that is added later."""

import inspect
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

from queue_engine.domain.errors import GitHubError, WriteRefused
from queue_engine.domain.facts import Commit, MergeMethod, PullRequest
from queue_engine.domain.model import Repository
from queue_engine.domain.port import BranchUpdate, Comments, Reads, SnapshotRequest, Writes
from tests.unit.bot.gateway.emulator_place import Place

OF_THE_APP = {
    "POST /app/installations/{installation_id}/access_tokens",
    "POST /app/hook/deliveries/{delivery_id}/attempts",
}
"""What changes no repository: tokens, and asking for a webhook again."""

WRITES = {
    "update_branch",
    "merge",
    "create_branch",
    "merge_into",
    "create_commit",
    "update_refs",
    "open_draft",
    "close_pull_request",
    "dispatch_workflow",
    "merge_in_background",
    "rerun",
    "cancel_run",
    "disable_auto_merge",
    "revert_pull_request",
    "delete_branch",
    "delete_ref",
    "write_notes",
    "create_label",
    "create_ref",
    "react",
    "create_comment",
    "update_comment",
    "delete_comment",
    "create_check_run",
    "update_check_run",
    "add_label",
    "remove_label",
}


def operations() -> Iterator[str]:
    """The coroutines of the ports."""
    for port in (Reads, Writes, Comments):
        for name, member in vars(port).items():
            if inspect.iscoroutinefunction(member):
                yield name


def arguments(place: Place, name: str, pull: PullRequest) -> dict[str, Any]:
    """Arguments with which a call would do something."""
    head = place.pull.head_sha
    given = {
        "repository": place.repository,
        "repositories": (place.repository,),
        "number": place.pull.number,
        "login": "mona",
        "person_id": 7,
        "wanted": (),
        "base_branch": "main",
        "branch": "topic/1",
        "default_branch": "main",
        "head_sha": head,
        "heads": (head,),
        "sha": head,
        "expected_head": head,
        "required": (),
        "reports": (),
        "check_runs": (),
        "method": MergeMethod.MERGE,
        "author": "mona",
        "actions_run": 5,
        "comment_id": 7,
        "content": "eyes",
        "node_id": pull.node_id,
        "label": "shipped",
        "since": place.github.clock.now() - timedelta(hours=1),
        "pull": pull,
        "cursor": None,
        "body": "text",
        "check_run": {"name": "IMQ", "head_sha": head, "status": "in_progress", "external_id": "e"},
        "check_run_id": 9,
        "name": "IMQ",
        "uuid": "630b9d5e",
        "color": "1f6feb",
        "description": "Land it",
        "external_id": "e",
        "installation_id": place.repository.installation_id,
    } | of_candidates(place)
    wanted = inspect.signature(getattr(place.gateway, name)).parameters.values()
    return {each.name: given[each.name] for each in wanted if each.default is inspect.Parameter.empty}


def of_candidates(place: Place) -> dict[str, Any]:
    """Arguments of the calls for candidates."""
    head = place.pull.head_sha
    return {
        "tree": place.handle.tree(head),
        "parents": (head,),
        "message": "Add",
        "updates": (BranchUpdate("topic/1", head, None),),
        "head": "topic/1",
        "base": "main",
        "tip": "main",
        "title": "Test",
        "path": ".github/workflows/ci.yml",
        "paths": (".github/workflows/ci.yml",),
        "inputs": {},
        "commit": head,
        "before": head,
        "after": head,
        "landed": Commit(head, place.handle.tree(head), ()),
        "ref": "refs/imq/tested/1",
        "onto": None,
        "notes": {head: "{}"},
        "requests": [SnapshotRequest(place.pull.number, "mona", head)] * 2,
    }


def written(place: Place) -> list[str]:
    """The requests so far that change a repository."""
    changing = (each for each in place.server.requests if "query " not in str(each.body))
    sent = (f"{each.method} {each.template.removeprefix(f'{each.method} ')}" for each in changing)
    return [each for each in sent if not each.startswith("GET ") and each not in OF_THE_APP]


async def refused(place: Place) -> set[str]:
    """Call every operation; return those that the gateway refused to send."""
    found, pull = set[str](), await place.gateway.pull_request(place.repository, place.pull.number)
    for name in operations():
        with suppress(GitHubError):
            try:
                await getattr(place.gateway, name)(**arguments(place, name, pull))
            except WriteRefused:
                found.add(name)
    return found


async def test_every_write_of_the_ports_is_refused_and_no_read(place: Place) -> None:
    """A write that is added to a port is in this list, or the test fails; none is sent."""

    async def in_shadow(_: Repository) -> bool:
        return False

    place.gateway._connection.may_write = in_shadow
    assert await refused(place) == WRITES
    assert written(place) == []


async def test_the_same_writes_are_sent_in_other_repositories(place: Place) -> None:
    """So the refusals above are not those of wrong arguments."""
    assert await refused(place) == set()
    assert len(written(place)) >= len(WRITES)
