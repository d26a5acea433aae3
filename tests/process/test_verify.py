"""`imq verify` on histories that real git made, with passports signed by a key of the test."""

import base64
import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from bot.cli import main
from bot.cli.author.api_client import ApiAnswer, ApiClient
from bot.cli.clone.history import Commit
from bot.cli.clone.verify import NOTES, Verification
from bot.passport.statement import PAYLOAD_TYPE, envelopes, payload, statements
from tests.process.history_maker import HistoryMaker

OURS, THEIRS = (Ed25519PrivateKey.from_private_bytes(each * 32) for each in (b"o", b"t"))
KEY_IDS = {OURS: "0" * 64, THEIRS: "1" * 64}
AT = "2025-06-15T15:00:00+00:00"
"""Within an hour of the commits of `HistoryMaker`."""


def published(*keys: Ed25519PrivateKey) -> dict[str, Any]:
    """The keys as `/.well-known/imq-keys.json` has them."""
    raw = {KEY_IDS[each]: each.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex() for each in keys}
    kind = {"keytype": "ed25519", "scheme": "ed25519"}
    return {"keys": {name: {**kind, "keyval": {"public": public}} for name, public in raw.items()}}


def record_of(clone: HistoryMaker, commit: str, number: int, **changes: Any) -> dict[str, Any]:
    """The record of a landing as it is in the clone, with changes."""
    tree, before = clone.sha(f"{commit}^{{tree}}"), clone.sha(f"{commit}^")
    record: dict[str, Any] = {
        "repository": {"id": 7, "name": "acme/widgets"},
        "base": {"branch": "main", "before": before},
        "landed": {"commit": commit, "tree": tree, "at": AT},
        "candidate": {"commit": commit, "tree": tree},
        "method": "squash",
        "how": "merge",
        "members": [{"number": number, "head": commit}],
        "checks": [],
        "hashes": {"rules": None, "configuration": None},
        "verdict": {"result": "equal"},
    }
    return record | changes


def signed(record: Mapping[str, Any], key: Ed25519PrivateKey = OURS) -> dict[str, Any]:
    """A line of `imq landings export`."""
    kind = PAYLOAD_TYPE.encode()
    signatures = []
    for content in map(payload, statements(record)):
        whole = b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(content), content)
        signatures.append(base64.b64encode(key.sign(whole)).decode())
    return {
        "commit": record["landed"]["commit"],
        "tree": record["landed"]["tree"],
        "repository_id": record["repository"]["id"],
        "base_branch": record["base"]["branch"],
        "number": record["members"][-1]["number"],
        "result": record["verdict"]["result"],
        "envelopes": envelopes(record, KEY_IDS[key], signatures),
    }


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HistoryMaker:
    """Four squash landings after the first commit; the keys are in a file."""
    made = HistoryMaker(tmp_path / "clone")
    for number in (1, 2, 3, 4):
        made.pull_request(number, {f"new{number}.py": "1\n"})
        made.squash(number)
    (tmp_path / "keys.json").write_text(json.dumps(published(OURS)))
    monkeypatch.chdir(made.path)
    return made


def landed(clone: HistoryMaker) -> list[str]:
    """The landings, the first one first."""
    return clone.git("rev-list", "--reverse", "--first-parent", "HEAD").split()[1:]


def bundle(tmp_path: Path, lines: Sequence[str]) -> tuple[str, ...]:
    """Store lines as a bundle; the options that read it."""
    file = tmp_path / "bundle.jsonl"
    file.write_text("".join(f"{line}\n" for line in [json.dumps(published(OURS)), *lines]), errors="replace")
    return "--bundle", str(file), "--keys", str(tmp_path / "keys.json")


def verified(*options: str, range_: str = "HEAD~4..", code: int = 0) -> dict[str, tuple[str, str]]:
    """Verdict and reason of each landing, by its commit."""
    result = CliRunner(env={"IMQ_URL": None, "IMQ_TOKEN": None}).invoke(
        main.main, ["verify", range_, "--json", *options], catch_exceptions=False
    )
    assert result.exit_code == code, result.output
    return {each["sha"]: (each["verdict"], each["reason"]) for each in json.loads(result.stdout)["landings"]}


def test_verify_of_a_bundle_proves_landings_by_all_methods(clone: HistoryMaker, tmp_path: Path) -> None:
    """A rebase has one record for all of its commits, and a damaged second line takes nothing from a genuine one."""
    clone.pull_request(5, {"five.py": "1\n"}, {"more.py": "1\n"})
    before = clone.sha("HEAD")
    clone.rebase(5)
    clone.pull_request(6, {"six.py": "1\n"})
    clone.merge(6)
    found = landed(clone)
    records = [record_of(clone, sha, number) for number, sha in enumerate(found[:4], start=1)]
    records.append(record_of(clone, found[5], 5, method="rebase", base={"branch": "main", "before": before}))
    records.append(record_of(clone, found[6], 6, method="merge", verdict={"result": "exempt", "files": ["a.md"]}))
    lines = [json.dumps(signed(each)) for each in records]
    lines.append(lines[0].replace('"number": 1', '"number": 9'))
    assert set(verified(*bundle(tmp_path, lines), range_="HEAD~7..").values()) == {("proved", "")}


def flipped(text: str, within: str) -> str:
    """Change one character of the value of a field."""
    at = text.index(f'"{within}": "') + len(within) + 5
    return text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]


def unreadable(line: str) -> str:
    return line.replace('"number"', '"number')


@pytest.mark.parametrize(
    "damage",
    [
        lambda line: flipped(line, "sig"),
        lambda line: flipped(line, "payload"),
        lambda line: flipped(line, "payloadType"),
        lambda line: flipped(line, "keyid"),
        lambda line: flipped(line, "tree"),
        lambda line: flipped(line, "base_branch"),
        lambda line: line.replace('"commit": "', '"commit": "0', 1),
        unreadable,
        lambda line: json.dumps(json.loads(line) | {"envelopes": []}),
    ],
)
def test_verify_of_a_changed_byte_says_forged(
    clone: HistoryMaker, tmp_path: Path, damage: Callable[[str], str]
) -> None:
    """In the envelope or in the row beside it, also where the row is no JSON any more."""
    lines = [json.dumps(signed(record_of(clone, sha, number))) for number, sha in enumerate(landed(clone), start=1)]
    lines[1] = damage(lines[1])
    found = verified(*bundle(tmp_path, lines), code=1)
    assert [verdict for verdict, _ in found.values()] == ["proved", "proved", "forged", "proved"]


def test_verify_of_notes_names_a_changed_and_a_moved_note(clone: HistoryMaker, tmp_path: Path) -> None:
    """A note is the line of the export, on its own commit."""
    keys = ("--notes", "--keys", str(tmp_path / "keys.json"))
    lines = {sha: json.dumps(signed(record_of(clone, sha, n))) for n, sha in enumerate(landed(clone), start=1)}
    for sha, line in lines.items():
        clone.git("notes", f"--ref={NOTES}", "add", "-m", line, sha)
    assert {verdict for verdict, _ in verified(*keys).values()} == {"proved"}
    # IMQ writes them into folders, as git itself does where there are many.
    index = {**os.environ, "GIT_INDEX_FILE": str(tmp_path / "index"), "GIT_DIR": str(clone.path / ".git")}
    for sha, line in lines.items():
        blob = clone.git("hash-object", "-w", "--stdin", given=f"{line}\n")
        entry = f"100644,{blob},{sha[:2]}/{sha[2:]}"
        subprocess.run(["git", "update-index", "--add", "--cacheinfo", entry], env=index, check=True)
    tree = subprocess.run(["git", "write-tree"], env=index, check=True, capture_output=True, text=True).stdout.strip()
    clone.git("update-ref", NOTES, clone.git("commit-tree", "-m", "Notes", tree))
    assert {verdict for verdict, _ in verified(*keys).values()} == {"proved"}
    first, second, *_ = lines
    clone.git("notes", f"--ref={NOTES}", "add", "-f", "-m", flipped(lines[first], "payload"), first)
    clone.git("notes", f"--ref={NOTES}", "add", "-f", "-m", lines[first], second)
    found = verified(*keys, code=1)
    assert (found[first][0], found[second]) == ("forged", ("forged", "its note has the record of another commit"))


def test_verify_names_a_ref_that_was_pointed_elsewhere(clone: HistoryMaker, tmp_path: Path) -> None:
    """A ref that is gone has expired; one that IMQ did not write so is named."""
    clone.git("remote", "add", "origin", str(clone.path))
    records = [record_of(clone, sha, number) for number, sha in enumerate(landed(clone), start=1)]
    names = [f"refs/imq/tested/{'a' * 40}/{record['landed']['tree']}" for record in records]
    for name, record in zip(names, records, strict=True):
        record["ref"] = {"name": f"refs/imq/tested/{'a' * 40}"}
        clone.git("update-ref", name, record["candidate"]["commit"])
    records[1]["ref"]["object"] = clone.sha("HEAD:app.py")
    clone.git("update-ref", names[1], clone.sha("HEAD:app.py"))
    clone.git("update-ref", "-d", names[2])
    lines = [json.dumps(signed(each)) for each in records]
    assert {verdict for verdict, _ in verified(*bundle(tmp_path, lines), "--refs").values()} == {"proved"}
    clone.git("update-ref", names[3], clone.sha("HEAD~2"))
    found = verified(*bundle(tmp_path, lines), "--refs", code=1)
    assert next(iter(found.values())) == ("forged", f"somebody pointed {names[3]} elsewhere")
    assert [verdict for verdict, _ in found.values()][1:] == ["proved"] * 3


def test_verify_counts_no_landing_of_another_repository_or_branch(clone: HistoryMaker, tmp_path: Path) -> None:
    """P1: a fork's queue, or another branch's, may have landed the very commit by other checks; its key is the same."""
    shas = landed(clone)
    records = [record_of(clone, sha, number) for number, sha in enumerate(shas, start=1)]
    records[0]["repository"] = {"id": 7, "name": "acme/gadgets"}  # Its name, before it was changed.
    records[1]["repository"] = {"id": 8, "name": "mallory/widgets"}
    records[2]["base"] |= {"branch": "dev"}
    options = bundle(tmp_path, [json.dumps(signed(each)) for each in records])
    for chosen in (("-R", "Acme/Widgets"), ()):
        found = verified(*options, *chosen, "--branch", "main", code=3)
        assert [found[sha] for sha in shas] == [
            ("proved", ""),
            ("landed around the queue", "it landed in mallory/widgets, and a person pushed it here"),
            ("landed around the queue", "it landed in dev, and a person pushed it here"),
            ("proved", ""),
        ]
        clone.git("config", "remote.origin.url", "git@github.example:acme/widgets.git")
    assert [verdict for verdict, _ in verified(*options, code=3).values()].count("proved") == 3
    clone.git("remote", "set-url", "origin", "https://mirror.example/mirrors/widgets")
    pushed = clone.commit({"pushed.py": "1\n"}, "Push this")
    assert verified(*options, "-R", "acme/widgets", range_="HEAD~1..", code=3)[pushed][0] == "landed around the queue"
    clone.git("reset", "-q", "--hard", "HEAD~1")
    names = "acme/gadgets, acme/widgets, mallory/widgets"
    for unclear in ((), ("-R", "acme/other")):
        result = CliRunner().invoke(main.main, ["verify", "HEAD~4..", *options, *unclear])
        assert (result.exit_code, result.stderr) == (
            2,
            f"Error: The records are of {names}. Give --repository OWNER/REPO.\n",
        )
    clone.git("remote", "remove", "origin")
    result = CliRunner().invoke(main.main, ["verify", "HEAD~4..", *options])
    assert (result.exit_code, "Give --repository" in result.stderr) == (2, True)
    foreign = [each | {"repository": {"id": 8, "name": "mallory/widgets"}} for each in records]
    result = CliRunner().invoke(
        main.main, ["verify", "HEAD~4..", *bundle(tmp_path, [*map(json.dumps, map(signed, foreign))])]
    )
    assert (result.exit_code, result.stdout) == (0, "4 landings of mallory/widgets: 4 proved.\n")
    foreign[0]["repository"] = {"id": 9, "name": "mallory/widgets"}
    result = CliRunner().invoke(
        main.main, ["verify", "HEAD~4..", *bundle(tmp_path, [*map(json.dumps, map(signed, foreign))])]
    )
    sentence = "Several repositories had the name mallory/widgets. Give the records of one of them."
    assert (result.exit_code, result.stderr) == (2, f"Error: {sentence}\n")


def test_verify_names_each_fault_by_its_name(clone: HistoryMaker, tmp_path: Path) -> None:
    """A push, a missing record, a foreign key, another tree, another base, a mismatch, and a replaced commit."""
    numbers = dict(zip(landed(clone), (1, 2, 3, 4), strict=True))
    for number in range(5, 10):
        clone.pull_request(number, {f"new{number}.py": "1\n"})
        numbers[clone.squash(number)] = number
    pushed = clone.commit({"pushed.py": "1\n"}, "Push this")
    clone.git("commit", "-q", "--allow-empty", "-m", "Landed (#10)")
    replaced = clone.sha("HEAD")
    records = {sha: record_of(clone, sha, number) for sha, number in numbers.items()}
    by_number = {number: records[sha] for sha, number in numbers.items()}
    original = record_of(clone, replaced, 10)
    clone.git("commit", "-q", "--amend", "--allow-empty", "-m", "Another (#10)")
    amended = clone.sha("HEAD")

    by_number[4]["landed"]["tree"] = "4" * 40
    by_number[5]["base"]["before"] = "5" * 40
    by_number[6]["verdict"] = {"result": "mismatch"}
    by_number[7]["verdict"] = {"result": "unproved", "why": "no check ran"}
    lines = [
        json.dumps(signed(each, THEIRS if number == 3 else OURS)) for number, each in by_number.items() if number != 2
    ]
    lines.append(json.dumps(signed(original)))

    found = verified(*bundle(tmp_path, lines), range_="HEAD~11..", code=1)

    named = {number: found[sha] for sha, number in numbers.items()}
    assert named == {
        1: ("proved", ""),
        2: ("no record", "a bot or GitHub landed it: its record is gone, or another one merged it"),
        3: ("forged", f"the record: no known key has the id {'1' * 64}"),
        4: ("differs", "the record has the tree 444444444444"),
        5: ("differs", "the record has it on 555555555555"),
        6: ("differs", "the record says that other content landed than was tested"),
        7: ("unproved", "no check ran"),
        8: ("proved", ""),
        9: ("proved", ""),
    }
    assert found[pushed] == ("landed around the queue", "a person pushed or merged it")
    assert found[amended] == ("differs", f"the record has the commit {replaced[:12]} in its place")


def test_verify_of_a_key_that_signs_no_more_proves_no_later_landing(clone: HistoryMaker, tmp_path: Path) -> None:
    """A former key signs nothing new; what it signed before is proved."""
    keys = published(OURS)
    lines = [json.dumps(signed(record_of(clone, sha, number))) for number, sha in enumerate(landed(clone), start=1)]
    options = bundle(tmp_path, lines)
    for until, verdict, code in (("2025-06-15T15:00:00+00:00", "proved", 0), ("2025-06-14T14:59:59Z", "forged", 1)):
        keys["keys"][KEY_IDS[OURS]] |= {"since": "2025-01-01T00:00:00+00:00", "until": until}
        (tmp_path / "keys.json").write_text(json.dumps(keys))
        found = verified(*options, code=code)
        reason = "" if code == 0 else f"the record: its key signed no more from {until} on"
        assert set(found.values()) == {(verdict, reason)}


def test_verify_accuses_no_commit_of_a_rebase_whose_beginning_is_not_known(clone: HistoryMaker, tmp_path: Path) -> None:
    """Where files differ that need no test, the former tip is not certain: that is no push, and no proof."""
    clone.commit({"pushed.py": "1\n"}, "Push this")
    clone.pull_request(5, {"five.py": "1\n"}, {"more.py": "1\n"}, {"last.py": "1\n"})
    clone.rebase(5)
    *before, pushed, first, second, last = landed(clone)
    records = [record_of(clone, sha, number) for number, sha in enumerate(before, start=1)]
    base, verdict = {"branch": "main", "before": None}, {"result": "exempt", "files": ["a.md"]}
    records.append(record_of(clone, last, 5, method="rebase", base=base, verdict=verdict))
    found = verified(*bundle(tmp_path, [json.dumps(signed(each)) for each in records]), range_="HEAD~8..", code=3)
    part = ("no record", f"the record of the rebase to {last[:12]} does not say where it began")
    assert [found[each] for each in (last, second, first)] == [("proved", ""), part, part]
    assert found[pushed] == ("landed around the queue", "a person pushed or merged it")
    assert {found[each] for each in before} == {("proved", "")}


def test_verify_calls_no_tip_proved_that_ci_tested_only_with_later_members(clone: HistoryMaker, tmp_path: Path) -> None:
    """P1: somebody took the last member of a train back; merges one by one pass such trees, each by a push."""
    *others, second, third = landed(clone)
    records = [record_of(clone, sha, number) for number, sha in enumerate(landed(clone), start=1)]
    for record in records[2:]:
        record |= {"how": "base_move", "candidate": {"commit": third, "tree": clone.sha(f"{third}^{{tree}}")}}
    options = bundle(tmp_path, [json.dumps(signed(each)) for each in records])
    assert set(verified(*options).values()) == {("proved", "")}
    found = verified(*options, range_=f"HEAD~4..{second}", code=4)
    assert found.pop(second) == ("unproved", "CI tested its whole train, and the range ends within it")
    assert found == dict.fromkeys(others, ("proved", ""))
    records[2]["how"] = "merge"
    options = bundle(tmp_path, [json.dumps(signed(each)) for each in records])
    assert set(verified(*options, range_=f"HEAD~4..{second}").values()) == {("proved", "")}


@pytest.mark.parametrize(
    ("kept", "verdict", "code"), [("push", "landed around the queue", 3), ("gone", "no record", 4)]
)
def test_verify_exits_by_the_worst(clone: HistoryMaker, tmp_path: Path, kept: str, verdict: str, code: int) -> None:
    """A push and a record that is gone have codes of their own."""
    lines = [json.dumps(signed(record_of(clone, sha, number))) for number, sha in enumerate(landed(clone), start=1)]
    if kept == "push":
        clone.commit({"pushed.py": "1\n"}, "Push this")
    else:
        del lines[-1]
    assert next(iter(verified(*bundle(tmp_path, lines), range_="HEAD~3..", code=code).values()))[0] == verdict


def test_verify_by_the_api_asks_for_pages_and_keys(
    clone: HistoryMaker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The records and the keys come from the server; a range that is proved asks for no further page."""
    lines = [signed(record_of(clone, sha, number)) for number, sha in enumerate(landed(clone), start=1)][::-1]
    asked: list[str] = []

    def call(_: ApiClient, method: str, path: str, body: Any = None, **_more: Any) -> ApiAnswer:
        asked.append(path)
        if path == "/.well-known/imq-keys.json":
            return ApiAnswer(200, published(OURS))
        at = int(path.partition("cursor=")[2].partition("&")[0] or 0)
        rest = {"landings": lines[at : at + 2], "next": str(at + 2)}
        return ApiAnswer(200, json.loads(json.dumps(rest)))

    monkeypatch.setattr(ApiClient, "call", call)
    monkeypatch.setenv("IMQ_URL", "https://imq.example.com")
    monkeypatch.setenv("IMQ_TOKEN", "imq_token")
    arguments = ["verify", "HEAD~4..", "-R", "acme/widgets"]
    result = CliRunner().invoke(main.main, arguments, catch_exceptions=False)
    assert (result.exit_code, result.stdout) == (0, "4 landings of acme/widgets: 4 proved.\n")
    path = "/api/v1/repositories/acme/widgets/landings?limit=100"
    assert asked == ["/.well-known/imq-keys.json", path, f"{path}&cursor=2"]


def test_verify_that_cannot_run_says_why(clone: HistoryMaker, tmp_path: Path) -> None:
    """A bundle does not vouch for its own keys."""
    options = bundle(tmp_path, [])[:2]
    empty = tmp_path / "empty.json"
    empty.write_text("[]")
    for arguments, sentence in (
        (["HEAD", *options], "Give --keys FILE, or --server URL"),
        (["HEAD", *options, "--keys", str(empty)], "There are no keys"),
        (["nowhere", *options, "--keys", str(empty)], "git does not know the range nowhere"),
        (["HEAD", "--notes", *options], "exclude each other"),
    ):
        result = CliRunner(env={"IMQ_URL": None, "IMQ_TOKEN": None}).invoke(main.main, ["verify", *arguments])
        assert (result.exit_code, sentence in result.stderr) == (2, True), result.output


@pytest.mark.thorough
def test_verify_of_many_records_keeps_only_what_the_range_needs() -> None:
    """Memory grows with the range: of records of other landings nothing remains."""
    import tracemalloc

    shas = [f"{number:040x}" for number in range(1, 12)]
    commits = [Commit(sha, "t" * 40, (parent,), "", "0", "", "1750000000", "") for parent, sha in pairwise(shas)]
    verification = Verification(reversed(commits), published(OURS)["keys"])
    template = {"commit": "@", "envelopes": [{"payload": "@"}]}
    text = json.dumps(template)

    def read(numbers: range) -> None:
        for number in numbers:
            stated = b'"base":{"before":"%040x"},"landed":{"at":"2025-06-15T15:00:00+00:00","commit":"%040x"}'
            encoded = base64.b64encode(stated % (number, number + 1)).decode()
            verification.take(text.replace("@", f"{number + 1:040x}", 1).replace("@", encoded, 1))

    read(range(1000, 2000))
    tracemalloc.start()
    try:
        read(range(2000, 12_000))
        assert tracemalloc.get_traced_memory()[0] < 20_000
    finally:
        tracemalloc.stop()
