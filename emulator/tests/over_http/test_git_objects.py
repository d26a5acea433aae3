"""Trees with every mode, and tags: objects and references of git that no branch moves with."""

from typing import Any

from over_http.conftest import Client, R


def payloads(client: Client, event: str) -> list[Any]:
    """The payloads of one event, oldest first."""
    return [payload for headers, payload in client.receiver.received if headers["X-GitHub-Event"] == event]


async def test_created_tree_keeps_the_mode_of_every_entry(client: Client) -> None:
    """An executable, a link, a submodule and a directory, as "Create a tree" documents their modes."""
    commit = client.repo.sha()
    docs = next(entry for entry in client.repo.record.git.entries(commit) if entry.path == "docs")
    entries: list[dict[str, Any]] = [
        {"path": "run", "mode": "100755", "type": "blob", "content": "#!/bin/sh\n"},
        {"path": "link", "mode": "120000", "type": "blob", "content": "run"},
        {"path": "module", "mode": "160000", "type": "commit", "sha": commit},
        {"path": "copy", "mode": "040000", "type": "tree", "sha": docs.sha},
    ]
    made = await client.call("POST", f"{R}/git/trees", 201, json_body={"base_tree": commit, "tree": entries})
    shown = {entry["path"]: (entry["mode"], entry["type"], "url" in entry) for entry in made["tree"]}
    assert shown == {
        "README.md": ("100644", "blob", True),
        "copy": ("040000", "tree", True),
        "docs": ("040000", "tree", True),
        "link": ("120000", "blob", True),
        "module": ("160000", "commit", False),
        "run": ("100755", "blob", True),
    }


async def test_tree_with_an_unknown_mode_or_the_wrong_object_is_refused(client: Client) -> None:
    """422, as GitHub validates entries."""
    commit = client.repo.sha()
    for entry in ({"path": "a", "mode": "100600", "content": ""}, {"path": "a", "mode": "040000", "sha": commit}):
        await client.call("POST", f"{R}/git/trees", 422, json_body={"tree": [entry]})


async def test_annotated_tag_is_an_object_that_a_reference_makes_a_tag(client: Client) -> None:
    """The reference names the tag's object; commits are found through it; each change is published."""
    commit = client.repo.sha()
    note = {"tag": "v1", "message": "First", "object": commit, "type": "commit"}
    sha = (await client.call("POST", f"{R}/git/tags", 201, json_body=note))["sha"]
    await client.get(f"{R}/git/ref/tags/v1", 404)
    made = await client.call("POST", f"{R}/git/refs", 201, json_body={"ref": "refs/tags/v1", "sha": sha})
    assert made["object"]["type"] == "tag"
    assert [ref["ref"] for ref in (await client.get(f"{R}/git/matching-refs/tags/")).content] == ["refs/tags/v1"]
    assert (await client.get(f"{R}/commits/v1"))["sha"] == commit
    await client.call("DELETE", f"{R}/git/refs/tags/v1", 204)
    await client.settle()
    assert [(push["ref"], push["after"], push["deleted"]) for push in payloads(client, "push")] == [
        ("refs/tags/v1", sha, False),
        ("refs/tags/v1", "0" * 40, True),
    ]
    assert payloads(client, "push")[0]["head_commit"]["id"] == commit
    assert [payloads(client, event)[0]["ref_type"] for event in ("create", "delete")] == ["tag", "tag"]


async def test_tag_object_of_another_type_is_refused(client: Client) -> None:
    """`type` must be that of the object."""
    note = {"tag": "v1", "message": "First", "object": client.repo.sha(), "type": "tree"}
    await client.call("POST", f"{R}/git/tags", 422, json_body=note)


async def test_tag_moves_back_only_by_force(client: Client) -> None:
    """As a branch does."""
    old = client.repo.sha()
    new = client.repo.push("main", {"x": "1\n"}, by="maria")
    client.repo.push_tag("v1", message="Annotated", by="maria")
    place = f"{R}/git/refs/tags/v1"
    await client.call("PATCH", place, 422, json_body={"sha": old})
    await client.call("PATCH", place, 200, json_body={"sha": old, "force": True})
    await client.call("PATCH", place, 200, json_body={"sha": new})
    assert client.repo.sha("tags/v1") == new


async def test_commit_of_an_app_is_signed_as_the_switch_says(client: Client) -> None:
    """By GitHub itself where the App names no author, as it documents for bots; or not at all."""
    tip = client.repo.sha()
    new = {"message": "Own", "tree": client.repo.tree(), "parents": [tip]}
    verified = []
    for signed in (True, False):
        client.github.behaviour.app_commits_signed = signed
        made = await client.call("POST", f"{R}/git/commits", 201, json_body={**new, "message": f"Signed: {signed}"})
        verified.append(made["verification"]["verified"])
    assert verified == [True, False]
