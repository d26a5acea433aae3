"""Each repository's own rules: read once, remembered, read again when they change, and harmless when broken."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from bot.gateway.people import KnownTeams
from bot.gateway.policies import Policies
from queue_engine.domain.errors import Invalid, Unavailable
from queue_engine.domain.model import Repository
from queue_engine.domain.policy import Mode
from queue_engine.store import Store
from tests.store.examples import OTHER, REPOSITORY
from tests.support.policies import unasked
from tests.unit.bot.conftest import ManualClock
from tests.unit.bot.gateway.policy_files import DEFAULTS, Files, Renewed


async def test_of_without_a_file_is_the_operators(policies: Policies) -> None:
    """Absent = defaults."""
    assert await policies.of(REPOSITORY, "main") == DEFAULTS
    assert await policies.labels(REPOSITORY) == ("go",)


async def test_of_reads_the_base_branchs_own_file(policies: Policies, files: Files) -> None:
    """Each branch has the rules that stand on it, laid over the operator's."""
    files.own = {(REPOSITORY.id, "main"): "depth: 3", (REPOSITORY.id, "next"): "trigger_labels: ship"}
    assert await policies.of(REPOSITORY, "main") == replace(DEFAULTS, depth=3)
    assert await policies.of(REPOSITORY, "next") == replace(DEFAULTS, trigger_labels=("ship",))
    assert await policies.of(OTHER, "main") == DEFAULTS


async def test_process_that_starts_reads_no_file_that_another_one_has_just_read(
    policies: Policies, files: Files, store: Store, clock: ManualClock, renewed: Renewed
) -> None:
    """P7: whether there is one, or none, or a broken one. After a change, or some minutes, it is read again."""

    async def start() -> list[str]:
        files.asked.clear()
        process = Policies(
            files, store, DEFAULTS, clock, forget_rules=lambda _: None, teams=KnownTeams(unasked, store, clock)
        )
        assert (await process.of(REPOSITORY, "main")).depth == 3
        assert "next" in ((await process.of(REPOSITORY, "next")).fault or "")
        assert await process.of(OTHER, "main") == DEFAULTS
        return files.asked

    files.own = {(REPOSITORY.id, "main"): "depth: 3", (REPOSITORY.id, "next"): Invalid("the file of next is no text")}
    everything = [f"{REPOSITORY.name}:main", f"{REPOSITORY.name}:next", f"{OTHER.name}:main", ".github"]
    assert await start() == everything
    clock.instant += timedelta(minutes=10) - timedelta(seconds=1)
    assert await start() == []
    await renewed(REPOSITORY)
    assert await start() == everything[:2]
    clock.instant += timedelta(minutes=10)
    assert await start() == everything


async def test_file_that_was_forgotten_is_not_taken_from_the_database(
    policies: Policies, files: Files, clock: ManualClock
) -> None:
    """A push said that it changed: what was read before is void, wherever it stands."""
    assert await policies.of(REPOSITORY, "main") == DEFAULTS
    clock.instant += timedelta(seconds=1)
    files.own = {(REPOSITORY.id, "main"): "depth: 3"}
    policies.forget(REPOSITORY.id)
    assert (await policies.of(REPOSITORY, "main")).depth == 3


async def test_labels_are_those_of_the_default_branch(policies: Policies, files: Files) -> None:
    """A label means something wherever one of the rules has it."""
    files.own = {(REPOSITORY.id, None): "trigger_labels: a\nbranches: [{match: next, trigger_labels: b}]"}
    assert await policies.labels(REPOSITORY) == ("a", "b")


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        (None, Mode.QUEUE),
        ("depth: 3", Mode.QUEUE),
        ("mode: shadow", Mode.SHADOW),
        ("mode: shadow\ndepth: many", Mode.SHADOW),
        ("depth: many", None),
    ],
)
async def test_mode_is_that_of_the_default_branch(
    policies: Policies, files: Files, text: str | None, mode: Mode | None
) -> None:
    """Files of other branches do not count; a faulty file that names no mode leaves it open."""
    files.own[REPOSITORY.id, "next"] = "mode: shadow"
    if text is not None:
        files.own[REPOSITORY.id, None] = text
    assert await policies.mode(REPOSITORY) is mode


async def test_of_remembers_for_an_hour(policies: Policies, files: Files, clock: ManualClock) -> None:
    """P7: what is known is not asked for again; a lost webhook misleads for an hour."""
    files.own[REPOSITORY.id, "main"] = "depth: 3"
    await policies.of(REPOSITORY, "main")
    clock.instant += timedelta(minutes=59)
    await policies.of(REPOSITORY, "main")
    assert files.asked == ["rocket:main"]
    files.own[REPOSITORY.id, "main"] = "depth: 4"
    clock.instant += timedelta(minutes=2)
    assert (await policies.of(REPOSITORY, "main")).depth == 4


async def test_of_remembers_for_a_day_that_there_is_no_file(
    policies: Policies, files: Files, clock: ManualClock
) -> None:
    """P7: a thousand idle repositories without rules of their own do not cost a thousand requests an hour."""
    await policies.of(REPOSITORY, "main")
    await policies.labels(REPOSITORY)
    clock.instant += timedelta(hours=23)
    await policies.of(REPOSITORY, "main")
    await policies.labels(REPOSITORY)
    assert files.asked == ["rocket:main", ".github", "rocket:HEAD"]
    files.own[REPOSITORY.id, "main"] = "depth: 3"
    clock.instant += timedelta(hours=2)
    assert (await policies.of(REPOSITORY, "main")).depth == 3


async def test_of_many_at_once_is_one_request(
    policies: Policies, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hundreds of queues that wake together do not ask hundreds of times."""

    async def at_once(repository: Repository) -> tuple[int, int]:
        return 0, 0

    monkeypatch.setattr(policies, "_generations", at_once)  # so that all of them are there when the first has asked
    files.own[REPOSITORY.id, "main"] = "depth: 3"
    files.gate = asyncio.Event()
    asking = [asyncio.ensure_future(policies.of(REPOSITORY, "main")) for _ in range(20)]
    await files.began.wait()
    files.gate.set()
    assert {policy.depth for policy in await asyncio.gather(*asking)} == {3}
    assert files.asked == ["rocket:main"]


async def test_of_forgotten_is_read_again(policies: Policies, files: Files) -> None:
    """A push to the file counts at once; other repositories are not asked for again."""
    await policies.of(REPOSITORY, "main")
    await policies.of(OTHER, "main")
    files.own[REPOSITORY.id, "main"] = "depth: 3"
    policies.forget(REPOSITORY.id)
    assert (await policies.of(REPOSITORY, "main")).depth == 3
    assert files.asked == ["rocket:main", ".github", "sled:main", "rocket:main"]


async def test_of_changed_in_another_process_is_read_again(policies: Policies, files: Files, renewed: Renewed) -> None:
    """Whichever process got the webhook, all of them go by the new file."""
    files.shared = "depth: 4"
    assert (await policies.of(REPOSITORY, "main")).depth == 4
    files.own[REPOSITORY.id, "main"] = "depth: 3"
    await renewed(REPOSITORY)
    assert (await policies.of(REPOSITORY, "main")).depth == 3
    assert files.asked == ["rocket:main", ".github", "rules of .github", "rocket:main"]


async def test_of_changed_in_another_process_forgets_the_branch_rules(
    files: Files, store: Store, clock: ManualClock, renewed: Renewed
) -> None:
    """P1: no process goes by branch rules older than a change that any of them has followed; one forgets them once."""
    forgotten: list[list[int]] = [[], []]
    processes = [
        Policies(files, store, DEFAULTS, clock, forget_rules=each.append, teams=KnownTeams(unasked, store, clock))
        for each in forgotten
    ]
    await renewed(OTHER)
    for process in processes:
        await process.of(REPOSITORY, "main")
        await process.of(OTHER, "main")
    for each in forgotten:
        each.clear()
    await renewed(REPOSITORY)
    for process in processes * 2:
        await process.of(REPOSITORY, "main")
        await process.of(OTHER, "main")
    assert forgotten == [[REPOSITORY.id], [REPOSITORY.id]]


async def test_of_changed_while_it_is_read_is_read_again(policies: Policies, files: Files, renewed: Renewed) -> None:
    """What was read before a change is not taken for what holds after it."""
    files.own[REPOSITORY.id, "main"] = "depth: 3"
    files.gate = asyncio.Event()
    reading = asyncio.ensure_future(policies.of(REPOSITORY, "main"))
    await files.began.wait()
    await renewed(REPOSITORY)
    files.gate.set()
    assert (await reading).depth == 3
    files.own[REPOSITORY.id, "main"] = "depth: 4"
    assert (await policies.of(REPOSITORY, "main")).depth == 4


async def test_of_a_broken_file_has_its_fault(policies: Policies, files: Files) -> None:
    """P5: the defaults, marked with the first problem and its line; the log names all problems."""
    files.own[REPOSITORY.id, "main"] = "depth: 3\nenabeld: true\ntimeout: 3h\n"
    with capture_logs() as logs:
        policy = await policies.of(REPOSITORY, "main")
    fault = ".github/imq.yml of main, line 2: enabeld is unknown; did you mean enabled?"
    assert policy == replace(DEFAULTS, fault=fault)
    assert [(log["event"], log["repository"], len(log["problems"])) for log in logs] == [
        ("configuration_broken", "acme/rocket", 2)
    ]
    assert await policies.of(OTHER, "main") == DEFAULTS


async def test_of_a_broken_file_keeps_what_held_before(policies: Policies, files: Files) -> None:
    """A mistake in the file does not take the meaning from the label that queued pull requests carry."""
    files.own[REPOSITORY.id, "main"] = "trigger_labels: ship"
    await policies.of(REPOSITORY, "main")
    files.own[REPOSITORY.id, "main"] = "trigger_labels: [ship"
    policies.forget(REPOSITORY.id)
    policy = await policies.of(REPOSITORY, "main")
    assert policy.trigger_labels == ("ship",)
    assert policy.fault is not None
    files.own[REPOSITORY.id, "main"] = "trigger_labels: land"
    policies.forget(REPOSITORY.id)
    assert await policies.of(REPOSITORY, "main") == replace(DEFAULTS, trigger_labels=("land",))


async def test_of_a_file_that_is_no_text_has_its_fault(policies: Policies, files: Files) -> None:
    """A directory, or another encoding, is a broken configuration and no trouble of GitHub's."""
    files.own[REPOSITORY.id, "main"] = Invalid(".github/imq.yml is not written in UTF-8")
    assert (await policies.of(REPOSITORY, "main")).fault == ".github/imq.yml of main is not written in UTF-8"


async def test_of_while_github_is_in_trouble_raises_and_remembers_nothing(policies: Policies, files: Files) -> None:
    """IMQ does not use the defaults because it could not read the file."""
    files.own[REPOSITORY.id, "main"] = Unavailable("502")
    with pytest.raises(Unavailable):
        await policies.of(REPOSITORY, "main")
    files.own[REPOSITORY.id, "main"] = "depth: 3"
    assert (await policies.of(REPOSITORY, "main")).depth == 3


async def test_cached_is_what_of_returns_until_something_changed(
    policies: Policies, files: Files, clock: ManualClock
) -> None:
    """P1: many queues at once are judged by their policies only if these are read, and still the newest."""
    files.own = {(REPOSITORY.id, "main"): "depth: 3"}
    assert policies.cached(REPOSITORY, "main", (0, 0)) is None
    policy = await policies.of(REPOSITORY, "main")
    assert (policy.depth, policies.cached(REPOSITORY, "main", (0, 0))) == (3, policy)
    assert policies.cached(REPOSITORY, "main", (1, 0)) is None, "its own file changed"
    assert policies.cached(REPOSITORY, "main", (0, 1)) is not None, "the owner's file does not count where it has one"
    clock.instant += timedelta(hours=1)
    assert policies.cached(REPOSITORY, "main", (0, 0)) is None


async def test_cached_policy_of_a_branch_without_a_file_is_the_owners(policies: Policies, files: Files) -> None:
    """P1: as everywhere; a change of the owner's file counts at once."""
    files.shared = "depth: 5"
    policy = await policies.of(REPOSITORY, "main")
    assert (policy.depth, policies.cached(REPOSITORY, "main", (0, 0))) == (5, policy)
    assert policies.cached(REPOSITORY, "main", (0, 1)) is None
    assert policies.cached(OTHER, "main", (0, 0)) is None, "whether it has a file is not known"
