"""Each kind of fault, seen by a client; and that what should happen on GitHub happens, or does not."""

import asyncio
import re
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import ClientError

from github_emulator import DropConnection, Fault, RecordedCall
from over_http import LIMIT
from over_http.conftest import Client, R

MERGE = "/repos/{owner}/{repo}/pulls/{number}/merge"


def pull_to_merge(client: Client) -> Any:
    return client.repo.open_pull_request("Change", head="topic", by="ann", files={"b": "1\n"})


async def merge(client: Client, pull: Any) -> int:
    return (await client.call("PUT", f"{R}/pulls/{pull.number}/merge")).status


@pytest.mark.parametrize("status", [404, 405, 409, 500, 503])
async def test_fail_before_applying_changes_nothing(client: Client, status: int) -> None:
    """The answer is an error, once, and nothing happened."""
    pull = pull_to_merge(client)
    client.server.faults.add(Fault(kind="fail", method="PUT", route=MERGE, status=status))
    assert await merge(client, pull) == status
    assert not pull.merged
    assert await merge(client, pull) == 200


@pytest.mark.parametrize("status", [502, 520])
async def test_fail_with_a_page_is_html(client: Client, status: int) -> None:
    """Proxies answer with a page, not with JSON."""
    client.server.faults.add(Fault(kind="fail", route="/rate_limit", status=status))
    answer = await client.get("/rate_limit", status)
    assert answer.headers["Content-Type"].startswith("text/html")


async def test_apply_then_fail_has_applied(client: Client) -> None:
    """The merge happened although the answer is 500."""
    pull = pull_to_merge(client)
    client.server.faults.add(Fault(kind="apply_then_fail", method="PUT", route=re.compile(r"/pulls/\d+/merge$")))
    assert await merge(client, pull) == 500
    assert pull.merged
    assert client.server.requests[-1].applied == 200


@pytest.mark.parametrize(("kind", "merged"), [("reset", False), ("apply_then_reset", True)])
async def test_reset_cuts_the_connection(client: Client, kind: Any, merged: bool) -> None:
    """The connection ends without an answer, before or after the merge."""
    pull = pull_to_merge(client)
    client.server.faults.add(Fault(kind=kind, method="PUT", route=MERGE))
    with pytest.raises(ClientError):
        await merge(client, pull)
    assert pull.merged is merged
    assert client.server.requests[-1].status is None


@pytest.mark.parametrize(("kind", "merged"), [("hang", False), ("apply_then_hang", True)])
async def test_hang_never_answers(client: Client, kind: Any, merged: bool) -> None:
    """No answer comes until the server stops."""
    pull = pull_to_merge(client)
    client.server.faults.add(Fault(kind=kind, method="PUT", route=MERGE))
    there = phase_reached(client, "after" if merged else "before")
    request = asyncio.ensure_future(merge(client, pull))
    await asyncio.wait_for(there.wait(), LIMIT)
    assert not request.done()
    assert pull.merged is merged
    await client.server.stop()
    with pytest.raises(ClientError):
        await request


@pytest.mark.parametrize(("kind", "merged"), [("delay", False), ("apply_then_delay", True)])
async def test_delay_waits_for_the_emulator_clock(client: Client, kind: Any, merged: bool) -> None:
    """The answer comes when the time has passed on the emulator's clock."""
    pull = pull_to_merge(client)
    client.server.faults.add(Fault(kind=kind, method="PUT", route=MERGE, delay=timedelta(seconds=30)))
    there = phase_reached(client, "after" if merged else "before")
    request = asyncio.ensure_future(merge(client, pull))
    await asyncio.wait_for(there.wait(), LIMIT)
    assert pull.merged is merged
    await client.settle(30)
    assert await request == 200


def phase_reached(client: Client, phase: str) -> asyncio.Event:
    """Set when the next merge has come that far; the fault strikes in the same iteration of the loop."""
    event = asyncio.Event()

    async def watch(recorded: RecordedCall) -> None:
        if recorded.phase == phase and recorded.template == "PUT " + MERGE:
            event.set()

    client.server.on_request = watch
    return event


@pytest.mark.parametrize(("status", "retry_after"), [(403, 7), (429, 7), (403, None), (429, None)])
async def test_secondary_limit_with_and_without_retry_after(
    client: Client, status: int, retry_after: int | None
) -> None:
    """The four ways GitHub says to slow down."""
    client.server.faults.add(Fault(kind="secondary_limit", status=status, retry_after=retry_after))
    answer = await client.get(R, status)
    assert "secondary rate limit" in answer["message"]
    assert answer.headers.get("Retry-After") == (None if retry_after is None else str(retry_after))
    assert client.server.limits.violations == []


async def test_rate_limit_on_demand_lasts_until_the_reset(client: Client) -> None:
    """None remaining: 403 now and for the rest of the hour."""
    client.server.faults.add(Fault(kind="rate_limit"))
    answer = await client.get(R, 403)
    assert answer["message"].startswith(f"API rate limit exceeded for installation ID {client.installation.id}.")
    assert answer.headers["X-RateLimit-Remaining"] == "0"
    await client.get(R, 403)
    client.clock.advance(timedelta(hours=1))
    await client.get(R)


async def test_expired_token_on_demand_is_bad_credentials(client: Client) -> None:
    """401, whatever the token."""
    client.server.faults.add(Fault(kind="expired_token"))
    assert (await client.get(R, 401))["message"] == "Bad credentials"
    await client.get(R)


async def test_bad_json_is_cut_off(client: Client) -> None:
    """A 200 whose body ends half-way."""
    client.server.faults.add(Fault(kind="bad_json"))
    headers = client.authorization("installation")
    async with client.session.get(client.server.url + R, headers=headers) as response:
        assert response.status == 200
        with pytest.raises(ValueError):
            await response.json()


async def test_bad_link_is_no_address(client: Client) -> None:
    """The answer itself is true."""
    client.server.faults.add(Fault(kind="bad_link"))
    headers = client.authorization("installation")
    async with client.session.get(client.server.url + R, headers=headers) as response:
        assert (await response.json())["full_name"]
        with pytest.raises(ValueError):
            _ = response.links


async def test_fault_skips_and_counts(client: Client) -> None:
    """The first ones pass, the next are hit, then all pass again; only those that the condition names."""
    fault = client.server.faults.add(
        Fault(kind="fail", skip=1, times=2, when=lambda recorded: "per_page" in recorded.query)
    )
    statuses = [(await client.get(f"{R}?per_page=1", None)).status for _ in range(4)]
    await client.get(R)
    assert statuses == [200, 500, 500, 200]
    assert fault.hits == 2


def test_unknown_fault_is_refused() -> None:
    """A test with a typing error in its fault does not pass silently."""
    with pytest.raises(ValueError, match="no fault is called 'explode'"):
        Fault(kind="explode")  # type: ignore[arg-type]


async def test_hook_sees_both_sides_and_may_cut(client: Client) -> None:
    """Crash tests stop the client before or after the change: the hook knows which."""
    pull = pull_to_merge(client)
    phases: list[tuple[str, bool]] = []

    async def watch(recorded: RecordedCall) -> None:
        phases.append((recorded.phase, pull.merged))
        if recorded.phase == "after":
            raise DropConnection

    client.server.on_request = watch
    with pytest.raises(ClientError):
        await merge(client, pull)
    assert phases == [("before", False), ("after", True)]
