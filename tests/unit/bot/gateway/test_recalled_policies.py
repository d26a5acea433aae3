"""After a restart, policies come from files that processes shared through the database: many at once, no request."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from bot.gateway.people import KnownTeams
from bot.gateway.policy_cache import Policies
from queue_engine.config.document import Document
from queue_engine.config.file import Config
from queue_engine.config.model import Policy
from queue_engine.config.parse import read
from queue_engine.domain.errors import Invalid, RateLimitError, Unavailable
from queue_engine.domain.model import Repository
from queue_engine.domain.policy import SharedConfig
from queue_engine.rules.policies import PolicyKey
from queue_engine.store import Store
from tests.store.examples import OTHER, REPOSITORY
from tests.support.policies import unasked
from tests.unit.bot.conftest import ManualClock
from tests.unit.bot.gateway.policy_files import DEFAULTS, Files, Renewed

OWN: PolicyKey = (REPOSITORY, "main", (0, 0))
ABSENT: PolicyKey = (OTHER, "main", (0, 0))


def started(
    files: Files,
    store: Store,
    clock: ManualClock,
    *,
    forget_rules: Callable[[int], None] = lambda _: None,
    shared: SharedConfig = SharedConfig.TIGHTEN,
) -> Policies:
    """The policies of a process that has just started."""
    teams = KnownTeams(unasked, store, clock)
    return Policies(files, store, DEFAULTS, clock, forget_rules=forget_rules, teams=teams, shared=shared)


@pytest.fixture
async def read_before(policies: Policies, files: Files) -> Files:
    """Files that a process read, whose requests are counted from now on."""
    files.own[REPOSITORY.id, "main"] = "depth: 3"
    files.shared = "depth: 5"
    for repository, branch, _ in (OWN, ABSENT):
        await policies.of(repository, branch)
    files.asked.clear()
    return files


@pytest.fixture
def restarted(files: Files, store: Store, clock: ManualClock) -> Policies:
    """The policies of another process."""
    return started(files, store, clock)


async def test_recall_caches_what_another_process_read(read_before: Files, restarted: Policies) -> None:
    """P7: the own file of one, and the owner's file for the other; nothing was cached before."""
    assert [restarted.cached(*key) for key in (OWN, ABSENT)] == [None, None]
    await restarted.recall([OWN, ABSENT])
    policies = [restarted.cached(*key) for key in (OWN, ABSENT)]
    assert policies == [await restarted.of(REPOSITORY, "main"), await restarted.of(OTHER, "main")]
    assert [policy and policy.depth for policy in policies] == [3, 5]
    assert read_before.asked == []


async def test_recall_without_shared_files_of_owners_reads_own_files_only(
    read_before: Files, store: Store, clock: ManualClock
) -> None:
    """The operator switched the owner's file off: then it has no effect here, either."""
    policies = started(read_before, store, clock, shared=SharedConfig.OFF)
    await policies.recall([ABSENT])
    assert policies.cached(*ABSENT) == DEFAULTS


async def test_recall_leaves_out_files_of_another_generation(
    read_before: Files, restarted: Policies, renewed: Renewed
) -> None:
    """P1: the configuration or the rules changed after the file was read."""
    await renewed(REPOSITORY)
    key = (REPOSITORY, "main", (1, 0))
    await restarted.recall([key])
    assert restarted.cached(*key) is None


async def test_recall_leaves_out_files_read_ten_minutes_ago(
    read_before: Files, restarted: Policies, clock: ManualClock
) -> None:
    """A webhook of a later change may have been lost."""
    clock.instant += timedelta(minutes=10)
    await restarted.recall([OWN, ABSENT])
    assert [restarted.cached(*key) for key in (OWN, ABSENT)] == [None, None]


async def test_recall_leaves_out_a_forgotten_file(read_before: Files, restarted: Policies) -> None:
    """P1: the file changed, and its next generation is not stored yet."""
    restarted.forget(REPOSITORY.id)
    await restarted.of(REPOSITORY, "next")
    restarted.forget(REPOSITORY.id)
    await restarted.recall([(REPOSITORY, "next", (0, 0))])
    assert restarted.cached(REPOSITORY, "next", (0, 0)) is None


async def test_recall_forgets_the_branch_rules_of_an_earlier_generation(
    read_before: Files, store: Store, clock: ManualClock
) -> None:
    """P1: no cached rules of a branch are older than its policy."""
    forgotten: list[int] = []
    policies = started(read_before, store, clock, forget_rules=forgotten.append)
    await policies.recall([OWN])
    await policies.recall([OWN])
    assert forgotten == [REPOSITORY.id]
    await policies.recall([(REPOSITORY, "main", (1, 0))])
    assert forgotten == [REPOSITORY.id] * 2


async def test_recall_parses_no_more_text_at_a_time_than_one_file_may_have(
    policies: Policies, files: Files, restarted: Policies
) -> None:
    """P5: many large files of one repository hold up no other queue; a pass over each reads its own."""
    branches = [f"release-{number}" for number in range(4)]
    for branch in branches:
        files.own[REPOSITORY.id, branch] = "depth: 3\n" + "#" * 30_000
        await policies.of(REPOSITORY, branch)
    keys = [(REPOSITORY, branch, (0, 0)) for branch in branches]
    await restarted.recall(keys)
    assert sum(restarted.cached(*key) is not None for key in keys) == 2


async def test_files_with_one_text_are_parsed_once(
    policies: Policies, files: Files, restarted: Policies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7: repositories of one owner often have the same file; a faulty one is explained for each of them."""
    branches = [f"release-{number}" for number in range(6)]
    for number, branch in enumerate(branches):
        files.own[REPOSITORY.id, branch] = "depth: 3" if number % 2 else "depth: many"
        await policies.of(REPOSITORY, branch)
    parsed: list[str] = []

    def counted(text: str, defaults: Policy, **named: str | None) -> Config:
        parsed.append(text)
        return read(text, defaults, **named)

    monkeypatch.setattr("bot.gateway.policy_cache.read", counted)
    keys = [(REPOSITORY, branch, (0, 0)) for branch in branches]
    await restarted.recall(keys)
    found = [restarted.cached(*key) for key in keys]
    assert [policy and policy.depth for policy in found][1::2] == [3, 3, 3]
    faults = [(policy and policy.fault) or "" for policy in found[::2]]
    assert [branch for branch, fault in zip(branches[::2], faults, strict=True) if branch not in fault] == []
    assert parsed.count("depth: 3") == 1


def never(text: str) -> Document:
    """No YAML is parsed."""
    raise AssertionError(text)


@pytest.mark.parametrize("together", [True, False])
async def test_valid_file_is_parsed_as_yaml_by_the_process_that_read_it_alone(
    read_before: Files, restarted: Policies, monkeypatch: pytest.MonkeyPatch, together: bool
) -> None:
    """YAML took half of the time in which a process that starts looked at 4,000 queues."""
    monkeypatch.setattr("queue_engine.config.parse.parse", never)
    if together:
        await restarted.recall([OWN, ABSENT])
        assert None not in [restarted.cached(*key) for key in (OWN, ABSENT)]
    policies = [await restarted.of(repository, branch) for repository, branch, _ in (OWN, ABSENT)]
    assert [policy.depth for policy in policies] == [3, 5]


def many(count: int) -> list[Repository]:
    """Repositories of one installation."""
    return [replace(REPOSITORY, id=1_000 + number, name=f"part-{number}") for number in range(count)]


async def test_read_ahead_asks_for_fifty_files_together_and_serves_every_process(
    files: Files, policies: Policies, restarted: Policies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7: a sweep of any process then reads none of them by itself, but for one that GitHub did not show."""
    repositories = many(51)
    files.own[repositories[0].id, None] = "trigger_labels: ship"
    files.own[repositories[1].id, None] = Invalid("no text")
    await policies.read_ahead(repositories)
    await policies.read_ahead(repositories)
    assert files.asked == ["50 together", "1 together", "1 together"]
    files.asked.clear()
    monkeypatch.setattr("queue_engine.config.parse.parse", never)
    assert [await restarted.labels(each) for each in repositories[2:]] == [DEFAULTS.trigger_labels] * 49
    assert await restarted.labels(repositories[0]) == ("ship",)
    await restarted.labels(repositories[1])
    assert files.asked == [".github", "part-1:HEAD"]


async def test_read_ahead_leaves_what_github_does_not_show_to_single_reads_but_waits_for_limits(
    files: Files, policies: Policies
) -> None:
    """P7: single reads would only wait longer."""
    files.together = Unavailable("Something went wrong")
    await policies.read_ahead(many(120))
    assert files.asked == ["50 together"]
    files.together = RateLimitError("slow down", retry_after=timedelta(seconds=1))
    with pytest.raises(RateLimitError):
        await policies.read_ahead(many(2))


async def test_file_that_changed_while_it_was_read_ahead_is_read_again(
    files: Files, policies: Policies, restarted: Policies, renewed: Renewed
) -> None:
    """P1: the answer is older than the push, so no process may take it for the present file."""
    (repository,) = many(1)
    await renewed(repository)
    files.gate = asyncio.Event()
    reading = asyncio.create_task(policies.read_ahead([repository]))
    await files.began.wait()
    files.own[repository.id, None] = "trigger_labels: ship"
    await renewed(repository)
    files.gate.set()
    await reading
    assert await restarted.labels(repository) == ("ship",)
