"""Passports are in-toto statements in DSSE envelopes, and each change of one is named."""

import base64
import json
from collections import Counter
from copy import deepcopy
from hashlib import sha1, sha256
from typing import Any

import jsonschema_rs
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from bot.passport.statement import (
    LANDING,
    PAYLOAD_TYPE,
    TEST_RESULT,
    PassportError,
    checks_of,
    envelopes,
    landing_in,
    payload,
    statements,
    verify,
)
from docs.generate import ROOT
from queue_engine.domain.landing_record import CheckProof, ProofKind, checks_data

SHA = {name: digit * 40 for name, digit in zip(("before", "landed", "head", "tree"), "1234", strict=True)}
RECORD: dict[str, Any] = {
    "repository": {"id": 7, "name": "acme/widgets"},
    "base": {"branch": "main", "before": SHA["before"]},
    "landed": {"commit": SHA["landed"], "tree": SHA["tree"], "at": "2026-01-02T03:04:05Z"},
    "candidate": {"commit": SHA["head"], "tree": SHA["tree"]},
    "method": "merge",
    "how": "merge",
    "members": [
        {
            "number": 42,
            "head": SHA["head"],
            "author": "mona",
            "consents": [{"by": "rhea", "how": "label", "at": "2026-01-02T03:00:00Z"}],
        }
    ],
    "checks": [
        {"app": 15368, "url": "https://ci.example/", "names": {"ci/test": "1", "build": None}},
        {"app": 15368, "conclusion": "skipped", "names": {"lint": None}},
        {"commit": SHA["before"], "from": "pull_request", "names": {"review": None}},
    ],
    "hashes": {"rules": "a" * 64, "configuration": "b" * 64},
    "verdict": {"result": "equal"},
}
SECRET = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
PUBLIC = SECRET.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()
KEYS = {"key-1": {"keytype": "ed25519", "scheme": "ed25519", "keyval": {"public": PUBLIC}}}


SCHEMA = json.loads((ROOT / "docs" / "landing-v1.schema.json").read_text(encoding="utf-8"))
SIGNED = {"keyid": "f" * 64, "sig": "A" * 88}


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
    assert landing["predicate"] == RECORD == landing_in(line(), KEYS)
    assert [each["digest"] for each in landing["subject"]] == [{"gitCommit": SHA["landed"]}, {"gitTree": SHA["tree"]}]
    assert [each["digest"] for each in tests["subject"]] == [{"gitCommit": SHA["head"]}, {"gitTree": SHA["tree"]}]
    result, names = tests["predicate"], [each["name"] for each in tests["subject"]]
    found = [result[each] for each in ("result", "passedTests", "warnedTests", "url")]
    assert found == ["WARNED", ["build", "ci/test"], ["lint"], "https://ci.example/1"]
    assert names == ["acme/widgets:main:candidate", "acme/widgets:main:candidate^{tree}"]
    jsonschema_rs.validate(SCHEMA, landing["predicate"])


def a_full_record(checks: int, members: int) -> dict[str, Any]:
    """A record with names and links of a usual length, whose hashes have nothing in common."""
    numbers = iter(range(1, 99))

    def sha() -> str:
        return sha1(bytes([next(numbers)])).hexdigest()

    head, candidate = sha(), sha()
    runs, names = ("16012345678", "16012345702", "16012345933"), ("unit (3.12, postgres)", "lint", "build / image")
    link = "https://github.com/acme/rocket-science/actions/runs/{}/job/{}"
    proofs = [
        CheckProof(f"{names[n % 3]} {n}", "success", candidate, 15368, link.format(runs[n % 3], 45198765432 + n))
        for n in range(checks)
    ]
    consent = {"by": "rhea-the-maintainer", "how": "label", "at": "2026-01-02T03:00:00Z"}
    updated = {"by": None, "how": "own_update", "at": "2026-01-02T03:01:00Z"}
    return RECORD | {
        "repository": {"id": 123456789, "name": "acme/rocket-science"},
        "base": {"branch": "main", "before": sha()},
        "landed": {"commit": sha(), "tree": sha(), "at": "2026-01-02T03:04:05Z"},
        "candidate": {"commit": candidate, "tree": sha()} | ({"run": 1234} if members > 1 else {}),
        "members": [
            *({"number": 12340 + n, "head": sha(), "tree": sha()} for n in range(members - 1)),
            {
                "number": 12345,
                "head": head,
                "author": "mona-lisa-octocat",
                "consents": [consent] if members > 1 else [consent | {"head": sha()}, updated],
            },
        ],
        "checks": checks_data(proofs, candidate),
        "hashes": {"rules": sha256(b"1").hexdigest(), "configuration": sha256(b"2").hexdigest()},
    }


@given(
    st.lists(
        st.builds(
            CheckProof,
            st.sampled_from(("test", "lint")),
            st.sampled_from(("success", "skipped")),
            st.sampled_from((SHA["head"], SHA["before"])),
            st.sampled_from((15368, None)),
            st.sampled_from(("https://ci.example/1", "https://ci.example/12", "https://ü.example", None)),
            st.sampled_from((*ProofKind, None)),
        ),
        max_size=6,
    )
)
def test_record_says_of_each_check_what_is_known_of_it(proofs: list[CheckProof]) -> None:
    """P1: what checks have in common stands once, and nothing is lost, not even a check reported twice."""
    record = RECORD | {"checks": checks_data(proofs, SHA["head"])}
    jsonschema_rs.validate(SCHEMA, record)
    read = [
        CheckProof(
            each["name"],
            each["conclusion"],
            each["commit"],
            each["app"],
            each["url"],
            ProofKind(each["from"]) if "from" in each else None,
        )
        for each in checks_of(record)
    ]
    assert Counter(read) == Counter(proofs)


@pytest.mark.parametrize(("checks", "members"), [(4, 1), (10, 1), (10, 5)])
def test_envelope_of_a_usual_landing_is_smaller_than_3_kb(checks: int, members: int) -> None:
    """With ten checks of three workflows, of an updated pull request and of the last one in a train of five."""
    record = a_full_record(checks, members)
    jsonschema_rs.validate(SCHEMA, record)
    assert max(len(json.dumps(each | {"signatures": [SIGNED]})) for each in passport(record)) < 3000


def test_passport_of_a_landing_without_checks_states_no_test() -> None:
    """What no check tested has no test result."""
    untested = {**RECORD, "checks": [], "verdict": {"result": "unproved", "why": "no check reported"}}
    assert landing_in(line(untested), KEYS) == untested
    assert len(passport(untested)) == 1


def test_form_of_version_one_never_changes() -> None:
    """IMQ makes the envelopes from the stored record again: another form would make every signature false."""
    assert [signature(payload(each))[:12] for each in statements(RECORD)] == ["0KQGWHBnwYsv", "85vUG+HLQJoP"]


def test_every_changed_byte_of_an_envelope_is_found() -> None:
    """P1: whichever byte of a passport is flipped, it proves nothing any more."""
    valid = line()
    text = json.dumps(valid)
    kinds = set()
    for at in range(len(text)):
        flipped = text[:at] + chr(ord(text[at]) ^ 1) + text[at + 1 :]
        try:
            changed = json.loads(flipped)
        except ValueError:
            continue
        if changed != valid:
            kinds.add(kind_of(changed))
    assert kinds == {"malformed", "foreign_key", "forged", "contradictory"}


def test_what_was_done_to_a_passport_is_named() -> None:
    """A changed record is forged, another's key is foreign, another's passport and a missing part contradict."""
    forged = line()
    changed = deepcopy(RECORD) | {"verdict": {"result": "exempt", "files": ["a"]}}
    forged["envelopes"] = envelopes(changed, "key-1", [signature(payload(each)) for each in statements(RECORD)])
    assert kind_of(forged) == "forged"
    assert kind_of(line(), {}) == kind_of(line(), {"key-1": None}) == "foreign_key"
    assert kind_of(line() | {"commit": SHA["before"]}) == "contradictory"
    assert kind_of(line() | {"envelopes": passport()[:1]}) == "contradictory"
    assert kind_of(line() | {"envelopes": passport()[::-1]}) == "malformed"
    assert kind_of(line() | {"envelopes": []}) == "malformed"
    other = line()
    other["envelopes"][0]["signatures"][0]["sig"] += "\n"
    assert kind_of(other) == "malformed"
