"""Auto-merge, as GitHub documents it: a person enables it, GitHub merges when all requirements are met."""

from datetime import timedelta
from typing import Any

import pytest

from github_emulator import Forbidden, GitHub, Invalid


@pytest.fixture
def pull(repository: Any) -> Any:
    """A pull request that waits for an approval, in a repository that allows auto-merge."""
    repository.record.allow_auto_merge = True
    repository.protect("main", required_approvals=1)
    return repository.open_pull_request("Change", head="topic", by="ann", files={"new.txt": "1\n"})


def actions(github: GitHub) -> list[str]:
    """The actions of the webhooks of auto-merge, from now on, filled as they leave."""
    sent: list[str] = []

    def observe(event: str, payload: dict[str, Any]) -> None:
        if event == "pull_request" and payload["action"].startswith("auto_merge"):
            sent.append(payload.get("reason", payload["action"]))

    github.webhooks.observers.append(observe)
    return sent


async def test_pull_request_merges_by_itself_when_its_last_requirement_is_met(github: GitHub, pull: Any) -> None:
    """By the person who enabled it, with the method chosen then; never before."""
    sent = actions(github)
    pull.enable_auto_merge("squash", by="bob")
    await github.advance(timedelta(hours=1))
    assert not pull.merged
    pull.review("APPROVED", by="octo")
    await github.advance(timedelta(seconds=2))
    assert pull.merged
    assert pull.record.merged_by.login == "bob"
    assert len(pull.record.repository.git.must(pull.merge_sha).parents) == 1
    assert sent == ["auto_merge_enabled"]


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (lambda pull: pull.convert_to_draft(by="ann"), "Pull request was converted to draft"),
        (lambda pull: pull.close(by="ann"), "Pull request was closed"),
        (lambda pull: pull.disable_auto_merge(by="ann"), "Auto-merge was disabled manually"),
    ],
)
async def test_auto_merge_ends_with_what_it_was_for(github: GitHub, pull: Any, act: Any, reason: str) -> None:
    """A draft and a closed pull request lose it, and somebody may disable it."""
    sent = actions(github)
    pull.enable_auto_merge(by="bob")
    act(pull)
    pull.review("APPROVED", by="octo")
    await github.advance(timedelta(seconds=2))
    assert not pull.merged
    assert sent == ["auto_merge_enabled", reason]


async def test_push_disables_auto_merge_only_without_write_access(github: GitHub, repository: Any) -> None:
    """A maintainer's update keeps it, the contributor's push to a fork ends it (docs, winget-pkgs #96183)."""
    repository.record.allow_auto_merge = True
    repository.protect("main", required_approvals=1)
    pull = repository.open_pull_request("Theirs", head="topic", fork_of="stranger", files={"new.txt": "1\n"})
    sent = actions(github)
    pull.enable_auto_merge(by="bob")
    repository.push("main", {"past.txt": "1\n"}, by="bob")
    pull.update_branch(by="bob")
    await github.advance(timedelta(seconds=2))
    assert len(repository.record.git.must(pull.head_sha).parents) == 2
    assert sent == ["auto_merge_enabled"]
    pull.push({"more.txt": "2\n"}, by="stranger")
    assert sent[1:] == ["Head branch was pushed to by a user without write access"]


async def test_auto_merge_is_refused_where_there_is_nothing_to_wait_for(
    github: GitHub, repository: Any, pull: Any
) -> None:
    """And where it is not allowed, or asked for by somebody who may not merge."""
    with pytest.raises(Forbidden):
        pull.enable_auto_merge(by="tim")
    repository.record.allow_auto_merge = False
    with pytest.raises(Invalid, match="not allowed for this repository"):
        pull.enable_auto_merge(by="bob")
    repository.record.allow_auto_merge = True
    pull.review("APPROVED", by="octo")
    github.mergeability.mergeable(pull.record)
    await github.advance(timedelta(seconds=1))
    with pytest.raises(Invalid, match="Pull request is in clean status"):
        pull.enable_auto_merge(by="bob")
