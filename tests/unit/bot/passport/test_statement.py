"""Passports are in-toto statements in DSSE envelopes, and each change of one is named."""

import base64
import json
from copy import deepcopy
from typing import Any

import jsonschema_rs
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from bot.passport.statement import (
    LANDING,
    PAYLOAD_TYPE,
    TEST_RESULT,
    PassportError,
    envelopes,
    landing_in,
    payload,
    statements,
    verify,
)
from docs.generate import ROOT

SHA = {name: digit * 40 for name, digit in zip(("before", "landed", "head", "tree"), "1234", strict=True)}
RECORD: dict[str, Any] = {
    "repository": {"id": 7, "name": "acme/widgets"},
    "base": {"branch": "main", "before": SHA["before"]},
    "landed": {"commit": SHA["landed"], "tree": SHA["tree"], "at": "2026-01-02T03:04:05+00:00"},
    "candidate": {"commit": SHA["head"], "tree": SHA["tree"], "run": None},
    "method": "merge",
    "how": "merge",
    "members": [
        {
            "number": 42,
            "head": SHA["head"],
            "commit": SHA["head"],
            "tree": SHA["tree"],
            "author": "mona",
            "consents": [{"head": SHA["head"], "by": "rhea", "how": "label", "at": "2026-01-02T03:00:00+00:00"}],
        }
    ],
    "checks": [
        {
            "name": "ci/test",
            "app": 15368,
            "conclusion": "success",
            "url": "https://ci.example",
            "commit": SHA["head"],
        },
        {"name": "lint", "app": 15368, "conclusion": "skipped", "url": None, "commit": SHA["head"]},
        {
            "name": "review",
            "app": None,
            "conclusion": "success",
            "url": None,
            "commit": SHA["head"],
            "from": "pull_request",
        },
    ],
    "hashes": {"rules": "a" * 64, "configuration": "b" * 64},
    "verdict": {"result": "equal"},
}
SECRET = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
PUBLIC = SECRET.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()
KEYS = {"key-1": {"keytype": "ed25519", "scheme": "ed25519", "keyval": {"public": PUBLIC}}}


def signature(content: bytes) -> str:
    """Sign as DSSE says, with `cryptography` alone."""
    kind = PAYLOAD_TYPE.encode()
    encoded = b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(content), content)
    return base64.b64encode(SECRET.sign(encoded)).decode()


def passport(record: dict[str, Any] = RECORD) -> list[dict[str, Any]]:
    return envelopes(record, "key-1", [signature(payload(each)) for each in statements(record)])


def line(record: dict[str, Any] = RECORD) -> dict[str, Any]:
    landed: dict[str, Any] = {"commit": SHA["landed"], "tree": SHA["tree"], "repository_id": 7, "base_branch": "main"}
    landed |= {"number": 42, "result": record["verdict"]["result"]}
    return {**landed, "envelopes": passport(record)}


def kind_of(found: Any, keys: Any = KEYS) -> str:
    """What is wrong with a line."""
    with pytest.raises(PassportError) as refused:
        landing_in(found, keys)
    return refused.value.kind.value


def test_passport_states_the_landing_and_the_tests_of_its_candidate() -> None:
    """P1: one statement has the whole record; the other has the checks of the tested tree in in-toto's own form."""
    landing, tests = (verify(each, KEYS) for each in passport())
    assert (landing["predicateType"], tests["predicateType"]) == (LANDING, TEST_RESULT)
    assert landing["predicate"] == RECORD
    assert [each["digest"] for each in landing["subject"]] == [{"gitCommit": SHA["landed"]}, {"gitTree": SHA["tree"]}]
    assert [each["digest"] for each in tests["subject"]] == [{"gitCommit": SHA["head"]}, {"gitTree": SHA["tree"]}]
    result = tests["predicate"]
    assert (result["result"], result["passedTests"], result["warnedTests"]) == ("WARNED", ["ci/test"], ["lint"])
    schema = json.loads((ROOT / "docs" / "landing-v1.schema.json").read_text(encoding="utf-8"))
    jsonschema_rs.validate(schema, landing["predicate"])
    assert max(len(json.dumps(each)) for each in passport()) < 3000


def test_passport_of_a_landing_without_checks_states_no_test() -> None:
    """What no check tested has no test result."""
    untested = {**RECORD, "checks": [], "verdict": {"result": "unproved", "why": "no check reported"}}
    assert landing_in(line(untested), KEYS) == untested
    assert len(passport(untested)) == 1


def test_form_of_version_one_never_changes() -> None:
    """IMQ makes the envelopes from the stored record again: another form would make every signature false."""
    assert [signature(payload(each))[:12] for each in statements(RECORD)] == ["s2C7Cg/zj4VV", "uGPzqCYGEAAE"]


def test_every_changed_byte_of_an_envelope_is_found() -> None:
    """P1: whichever byte of a passport is flipped, it proves nothing any more."""
    text = json.dumps(line())
    kinds = set()
    for at in range(len(text)):
        flipped = text[:at] + chr(ord(text[at]) ^ 1) + text[at + 1 :]
        try:
            changed = json.loads(flipped)
        except ValueError:
            continue
        if changed == line():
            continue
        kinds.add(kind_of(changed))
    assert kinds == {"malformed", "foreign_key", "forged", "contradictory"}


def test_what_was_done_to_a_passport_is_named() -> None:
    """A changed record is forged, another's key is foreign, another's passport and a missing part contradict."""
    forged = line()
    changed = deepcopy(RECORD) | {"verdict": {"result": "exempt", "files": ["a"]}}
    forged["envelopes"] = envelopes(changed, "key-1", [signature(payload(each)) for each in statements(RECORD)])
    assert kind_of(forged) == "forged"
    assert kind_of(line(), {}) == "foreign_key"
    assert kind_of(line() | {"commit": SHA["before"]}) == "contradictory"
    assert kind_of(line() | {"envelopes": passport()[:1]}) == "contradictory"
    assert kind_of(line() | {"envelopes": passport()[::-1]}) == "malformed"
    assert kind_of(line() | {"envelopes": []}) == "malformed"
    other = line()
    other["envelopes"][0]["signatures"][0]["sig"] += "\n"
    assert kind_of(other) == "malformed"
