"""Landings by every way, while reads lag and IMQ dies: each is proved, and each forgery has its name (P1, P2)."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.cli.clone.history import Commit
from bot.cli.clone.verify import Proof, Verification
from bot.passport.keys import line_of, public_keys
from tests.acceptance.landing_witness import landings
from tests.acceptance.test_trains_killed import Killer
from tests.acceptance.train_world import a_train_world
from tests.acceptance.world import CI_TIME, LABEL, LAG, World

METHODS = ("merge", "squash", "rebase")
LABELS = "merge: {method_labels: {merge: merge, squash: squash, rebase: rebase}, tested_refs: ci/test}\n"
TOGETHER = 6


async def land(world: World, names: Sequence[str], *, killed_at: int | None) -> None:
    """Land pull requests of all methods; the pass dies at one of its steps."""
    pulls = [world.open(each) for each in names]
    await world.pass_time(CI_TIME * 2)
    killer = None if killed_at is None else Killer(world, killed_at)
    for place, pull in enumerate(pulls):
        pull.label(METHODS[place % len(METHODS)], by="mona")
        pull.label(LABEL, by="mona")
    await world.until(lambda: (killer is not None and killer.killed) or all(pull.merged for pull in pulls))
    if killer is not None:
        await world.kill()
        await world.restart()
    await world.until(lambda: all(pull.merged for pull in pulls))
    await world.settle()


def history(world: World, since: str) -> list[Commit]:
    """The base's first parents, newest first, as `imq verify` reads them of a clone."""
    git, found, at = world.repository.record.git, list[Commit](), world.repository.sha("main")
    while at != since:
        one = git.must(at)
        instants = (str(int(each.date.timestamp())) for each in (one.author, one.committer))
        authored, committed = instants
        fields = (one.author.email, authored, one.committer.email, committed, one.title)
        found.append(Commit(one.sha, one.tree, one.parents, *fields))
        at = one.parents[0]
    return found


def verdicts(
    commits: Iterable[Commit], lines: Iterable[str], keys: Mapping[str, Any], refs: Mapping[str, str] | None = None
) -> dict[str, tuple[Proof | None, str]]:
    """What `imq verify` says of each commit."""
    verification = Verification(commits, keys, refs)
    for line in lines:
        verification.take(line)
    return {each.commit.sha: (each.proof, each.reason) for each in verification.landings()}


async def stated(world: World) -> tuple[list[str], dict[str, Any]]:
    """The lines of `imq landings export`, and the keys."""
    async with world.bot.engine.store.reading() as tx:
        keys = dict(public_keys(await tx.landing_keys.all()))
    return [json.dumps(line_of(each)) for each in await landings(world.bot.engine.store)], keys


async def land_and_verify(world: World, rounds: int) -> None:
    """Land six at a time, half of the rounds one by one, half in trains; then verify all, and each forgery."""
    since = world.repository.sha("main")
    for number in range(rounds):
        if number == rounds // 2:
            text = f"trains: off\n{LABELS}"
            world.repository.push("main", {".github/imq.yml": text}, "One by one", by="rhea")
            await world.pass_time(CI_TIME * 2)
        names = [f"p{number}-{place}" for place in range(TOGETHER)]
        await land(world, names, killed_at=None if number % 2 else 3 + 7 * (number // 2) % 40)
    commits, (lines, keys) = history(world, since), await stated(world)
    assert len(lines) == rounds * TOGETHER
    found = verdicts(commits, lines, keys)
    other = {sha: verdict for sha, verdict in found.items() if verdict[0] is not Proof.PROVED}
    [pushed] = [each.sha for each in commits if each.subject == "One by one"]
    assert other == {pushed: (Proof.AROUND, "a person pushed or merged it")}
    name_forgeries(world, commits, lines, keys)


def name_forgeries(world: World, commits: Sequence[Commit], lines: list[str], keys: Mapping[str, Any]) -> None:
    """Change one thing at a time: the verdict of that landing has its name, and no other verdict changes."""
    read = [json.loads(each) for each in lines]
    place = next(n for n, each in enumerate(read) if _record(each)["method"] == "squash" and "ref" in _record(each))
    chosen, record = read[place], _record(read[place])
    sha, ref = str(chosen["commit"]), f"{record['ref']['name']}/{record['landed']['tree']}"
    envelope = chosen["envelopes"][0]
    sig = envelope["signatures"][0]
    flipped = "A" if sig["sig"][5] != "A" else "B"
    bad = {**envelope, "signatures": [{**sig, "sig": f"{sig['sig'][:5]}{flipped}{sig['sig'][6:]}"}]}
    changed = {
        "envelope": {**chosen, "envelopes": [bad, *chosen["envelopes"][1:]]},
        "row": {**chosen, "tree": "0" * 40},
        "another": {**chosen, "envelopes": read[place - 1]["envelopes"]},
    }
    genuine = verdicts(commits, lines, keys)

    def judged(
        lines: Iterable[str], keys: Mapping[str, Any] = keys, refs: Mapping[str, str] | None = None
    ) -> tuple[Proof | None, str]:
        found = verdicts(commits, lines, keys, refs)
        assert {each for each in found if found[each] != genuine[each]} == {sha}
        return found[sha]

    for name, line in changed.items():
        verdict = judged([*lines[:place], json.dumps(line), *lines[place + 1 :]])
        assert verdict[0] is Proof.FORGED, (name, verdict)
    assert judged([*lines[:place], *lines[place + 1 :]])[0] is Proof.NO_RECORD
    assert judged(lines, refs={ref: "0" * 40}) == (Proof.FORGED, f"somebody pointed {ref} elsewhere")
    assert verdicts(commits, lines, keys, {ref: record["candidate"]["commit"]}) == genuine
    foreign = verdicts(commits, lines, {"0" * 64: next(iter(keys.values()))})
    assert {verdict for verdict, _ in foreign.values()} == {Proof.FORGED, Proof.AROUND}
    amended = [each if each.sha != sha else each._replace(tree="0" * 40) for each in commits]
    assert verdicts(amended, lines, keys)[sha][0] is Proof.DIFFERS
    replaced = [each if each.sha != sha else each._replace(sha="e" * 40) for each in commits]
    assert verdicts(replaced, lines, keys)["e" * 40] == (
        Proof.DIFFERS,
        f"the record has the commit {sha[:12]} in its place",
    )


def _record(line: Mapping[str, Any]) -> dict[str, Any]:
    from base64 import b64decode

    statement: dict[str, Any] = json.loads(b64decode(line["envelopes"][0]["payload"]))
    return dict(statement["predicate"])


async def test_landings_by_every_way_are_proved_and_forgeries_named(tmp_path: Path) -> None:
    """P1, P2: trains and one by one, all methods, lag, and a death in every second round."""
    async with a_train_world(tmp_path, more=LABELS, lag=LAG) as world:
        await land_and_verify(world, 2)


@pytest.mark.long
@pytest.mark.parametrize("part", range(8))
async def test_thousand_landings_by_every_way_are_proved(part: int, tmp_path: Path, database_url: str) -> None:
    """The same on both databases, 126 in each of eight parts; reads lag in every second one."""
    settings, lag = {"DATABASE_URL": database_url}, LAG * (part % 2)
    async with a_train_world(tmp_path, more=LABELS, lag=lag, settings=settings) as world:
        world.repository.push("main", {f"part-{part}.py": "1\n"}, "Begin", by="rhea")
        await world.pass_time(timedelta(hours=1))
        await land_and_verify(world, 21)
