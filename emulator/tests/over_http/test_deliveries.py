"""The redelivery API: failed webhooks can be found and sent again."""

from typing import Any

from github_schemas.schemas import next_link
from over_http.conftest import Client


async def test_redelivery_keeps_the_guid(client: Client) -> None:
    """A delivery that failed is listed as such; asked for again it arrives under its old GUID."""
    client.receiver.status = 503
    pull = client.repo.open_pull_request("Change", head="topic", by="ann", files={"b": "1\n"})
    pull.label("merge-queue", by="ann")
    await client.settle()
    failed = await client.get("/app/hook/deliveries?status=failure", who="app")
    labeled = next(one for one in failed.content if one["action"] == "labeled")
    assert (labeled["status_code"], labeled["redelivery"]) == (503, False)
    detail = await client.get(f"/app/hook/deliveries/{labeled['id']}", who="app")
    assert detail["request"]["payload"]["label"]["name"] == "merge-queue"

    client.receiver.status = 202
    client.receiver.received.clear()
    await client.call("POST", f"/app/hook/deliveries/{labeled['id']}/attempts", 202, who="app")
    await client.settle()
    (headers, body), *more = client.receiver.received
    assert more == []
    assert headers["X-GitHub-Delivery"] == labeled["guid"]
    assert body == detail["request"]["payload"]
    newest = (await client.get("/app/hook/deliveries?per_page=1", who="app"))[0]
    assert (newest["guid"], newest["redelivery"], newest["status_code"]) == (labeled["guid"], True, 202)
    assert newest["id"] != labeled["id"]


async def test_deliveries_are_paged_by_cursor_newest_first(client: Client) -> None:
    """The next link leads through all of them, each once."""
    for number in range(4):
        client.repo.push("main", {"n": f"{number}\n"}, "On", by="maria")
    await client.settle()
    address: str | None = "/app/hook/deliveries?per_page=2"
    ids: list[Any] = []
    while address is not None:
        answer = await client.get(address, who="app")
        assert len(answer.content) <= 2
        ids += [delivery["id"] for delivery in answer.content]
        address = next_link(answer.headers.get("Link"))
    assert ids == sorted((delivery.id for delivery in client.github.state.deliveries), reverse=True)


async def test_deliveries_of_others_do_not_exist(client: Client) -> None:
    """An app sees its own deliveries only, and a token of an installation none."""
    other = client.github.create_app("other", permissions={}, webhook_url=client.app.webhook_url)
    client.github.install(other, "acme")
    await client.settle()
    (foreign,) = (one for one in client.github.state.deliveries if one.app is other)
    await client.get(f"/app/hook/deliveries/{foreign.id}", 404, who="app")
    answer = await client.get("/app/hook/deliveries", who="app")
    assert foreign.id not in [delivery["id"] for delivery in answer.content]
    await client.get("/app/hook/deliveries", 401, who="installation")


async def test_delivery_on_its_way_is_not_listed(client: Client) -> None:
    """A webhook that has not been sent yet is not listed as failed."""
    await client.settle()
    before = len((await client.get("/app/hook/deliveries", who="app")).content)
    client.repo.push("main", {"n": "1\n"}, "On", by="maria")
    assert len((await client.get("/app/hook/deliveries", who="app")).content) == before
    await client.settle()
    assert len((await client.get("/app/hook/deliveries", who="app")).content) > before
