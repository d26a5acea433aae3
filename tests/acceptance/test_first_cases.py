"""Cases that come once in the life of an installation or a repository, and are explained to people."""

import hmac
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.acceptance.world import LABEL, World, a_world
from tests.support.captured import captured


@pytest.mark.thorough
@pytest.mark.parametrize("webhook", [True, False])
@pytest.mark.parametrize("event", ["automatic_base_change_succeeded", "base_ref_changed", ""])
async def test_default_branch_renamed_dequeues_with_the_way_to_queue_again(
    world: World, webhook: bool, event: Any
) -> None:
    """P4: the pull requests target a branch by another name now. GitHub may or may not send their webhooks.

    No source says what their histories have of it.
    """
    world.github.behaviour.renamed_base = event
    first, second = await world.behind("one"), world.open("two")
    for pull in (first, second):
        pull.label(LABEL, by="mona")
    await world.until_status(first, "checking")
    world.repository.rename_branch("main", "trunk", by="rhea", webhook=webhook)
    await world.pass_time(timedelta(minutes=15))
    for pull in (first, second):
        assert await world.reasons(pull) == ["base_changed"]
        assert LABEL not in pull.labels
        assert re.search("base branch changed|changed the base branch", world.comment(pull))
        assert "comment `/queue`" in world.comment(pull)
        pull.label(LABEL, by="mona")
    for pull in (first, second) if event else ():
        # GitHub reports a rename as a change of the base: nothing shows that the checks tested this branch.
        await world.pass_time(timedelta(minutes=1))
        assert await world.reasons(pull) == ["base_changed", "tested_on_another_base"]
        assert "Push a commit, so that CI tests it on `trunk`." in world.comment(pull)
        pull.push({f"again-{pull.number}.txt": "1"}, by="mona")
    await world.until(lambda: first.merged and second.merged)
    await world.settle()
    assert "Landed on `trunk`" in world.comment(first)
    assert world.landed("trunk") == [first.number, second.number]


@pytest.mark.thorough
async def test_first_label_of_a_repository_needs_no_file_and_explains_itself(world: World) -> None:
    """Who tries IMQ for the first time reads where the pull request stands, and how to take it back."""
    assert not [name for name in world.repository.files() if name.startswith(".github/imq")]
    pull = await world.behind("one")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    await world.pass_time(timedelta(seconds=30))
    words = world.comment(pull)
    assert "first in the queue for `main`" in words
    assert "To dequeue it, comment `/unqueue` or remove the label `merge-queue`." in words
    await world.until(lambda: pull.merged)


@pytest.mark.thorough
async def test_first_start_without_repositories_says_where_to_install_and_then_serves(tmp_path: Path) -> None:
    """The process is ready for webhooks; the log and `/readyz` have the link until there is a repository."""
    async with a_world(tmp_path) as world:
        (installation,) = [each for each in world.github.state.installations.values() if each.app is world.app]
        world.github.accounts.uninstall(installation)
        await world.kill()
        await world.restart()
        with captured() as log:
            await world.bot.app_status.run_due()
            status, answer = await readyz(world)
        assert status == 200
        assert answer["advice"].endswith("/apps/imq/installations/new")
        (line,) = log.lines(event="app_not_installed")
        assert line["advice"] == answer["advice"]
        world.github.install(world.app, "acme")
        await world.pass_time(timedelta(minutes=1))
        await world.bot.app_status.run_due()
        assert await readyz(world) == (200, {"status": "ready"})
        pull = world.open("one")
        pull.label(LABEL, by="mona")
        await world.until(lambda: pull.merged)


async def test_proxy_that_is_not_trusted_is_advice_of_readyz_by_a_signed_webhook_alone(tmp_path: Path) -> None:
    """P5: behind it one stranger uses up the limits of all; no stranger can raise a false alarm."""
    async with a_world(tmp_path, settings={"IMQ_TRUSTED_PROXIES": "none"}) as world:
        for secret in ("a stranger's guess", world.bot.settings.github_webhook_secret.get_secret_value()):
            assert await readyz(world) == (200, {"status": "ready"})
            signature = hmac.new(secret.encode(), b"{}", "sha256").hexdigest()
            headers = {
                "X-Forwarded-For": "203.0.113.9",
                "X-GitHub-Event": "ping",
                "X-GitHub-Delivery": "d-1",
                "X-Hub-Signature-256": f"sha256={signature}",
                "Content-Type": "application/json",
            }
            async with aiohttp.ClientSession() as session:
                await session.post(world.app.webhook_url, data=b"{}", headers=headers)
        status, answer = await readyz(world)
        assert status == 200
        assert "A reverse proxy at 127.0.0.1 forwards requests" in answer["advice"]


async def readyz(world: World) -> tuple[int, dict[str, str]]:
    """The answer of the readiness check."""
    url = world.app.webhook_url.replace("/webhook", "/readyz")
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.json()
