"""The statements about a landing, their envelopes, and their verification, without a server or a database.

A passport is one or two in-toto statements (Statement v1), each in a DSSE envelope with an Ed25519 signature. The first
states the landing, with the whole record. The second states the tests of the candidate, in in-toto's own form, so that
other programs can read it; a landing without checks has none. Both follow from the record alone: IMQ stores the
record and the signatures, and makes the envelopes whenever somebody asks for them. So the form of version 1 is frozen.
"""

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

STATEMENT = "https://in-toto.io/Statement/v1"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
LANDING = "imq:landing/v1"
"""The type of IMQ's own predicate. It names no website, since it may never change."""
PAYLOAD_TYPE = "application/vnd.in-toto+json"
"""The payload's type, as in-toto names it ("in-toto Attestation Framework", Envelope)."""

Record = Mapping[str, Any]
"""The record of one landing as JSON data, as `queue_engine.domain.landing_record` describes it."""
Keys = Mapping[str, Mapping[str, Any]]
"""Public keys by their ids, as `/.well-known/imq-keys.json` has them in `keys`: TUF's form of a key."""


_TOLERANCE = timedelta(days=1)
"""How far the clocks of IMQ's processes may differ."""


class PassportErrorKind(StrEnum):
    """What is wrong with a passport."""

    MALFORMED = "malformed"
    FOREIGN_KEY = "foreign_key"
    """No key among those given has the id of the key that signed it."""
    FORGED = "forged"
    """The signature does not fit: the envelope, the signature or the stored record was changed."""
    CONTRADICTORY = "contradictory"
    """Its parts are signed, and belong to different landings."""


class PassportError(Exception):
    """A passport proves nothing. The message is a sentence."""

    def __init__(self, kind: PassportErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def statements(record: Record) -> tuple[dict[str, Any], ...]:
    """Return what IMQ states about a landing: the landing, then the tests of its candidate, if any ran."""
    made = [_statement(LANDING, _subjects(record["landed"]), record)]
    tests = [each for each in checks_of(record) if each.get("from") in (None, "same_tree")]
    if tests and record["candidate"]["tree"] is not None:
        # This one names the repository and the branch, which its predicate cannot.
        name = f"{record['repository']['name']}:{record['base']['branch']}:candidate"
        made.append(_statement(TEST_RESULT, _subjects(record["candidate"], name), _test_result(tests, record)))
    return tuple(made)


def checks_of(record: Record) -> Iterator[dict[str, Any]]:
    """Yield the checks of a record one by one, with what its groups leave out."""
    usual = {"app": None, "conclusion": "success", "commit": record.get("candidate", {}).get("commit")}
    for group in record.get("checks", ()):
        same = usual | {name: each for name, each in group.items() if name not in ("names", "url")}
        for name, rest in sorted(group["names"].items()):
            yield same | {"name": name, "url": None if rest is None else group["url"] + rest}


def _statement(kind: str, subject: Sequence[Mapping[str, Any]], predicate: Record) -> dict[str, Any]:
    return {"_type": STATEMENT, "subject": subject, "predicateType": kind, "predicate": predicate}


def _subjects(of: Record, name: str = "") -> list[dict[str, Any]]:
    """Name a commit and its tree by Git's own digests, as in-toto's digest sets call them."""
    commit: dict[str, Any] = {"digest": {"gitCommit": of["commit"]}}
    tree: dict[str, Any] = {"digest": {"gitTree": of["tree"]}}
    return [commit | {"name": name}, tree | {"name": f"{name}^{{tree}}"}] if name else [commit, tree]


def _test_result(tests: Sequence[Record], record: Record) -> dict[str, Any]:
    """Return in-toto's test result; a check that was skipped tested nothing, so it only warns."""
    passed = [each["name"] for each in tests if each["conclusion"] == "success"]
    warned = [each["name"] for each in tests if each["conclusion"] != "success"]
    links = [each["url"] for each in tests if each.get("url")]
    return {
        "result": "WARNED" if warned else "PASSED",
        "configuration": [
            {"name": name, "digest": {"sha256": record["hashes"][name]}}
            for name in ("rules", "configuration")
            if record["hashes"][name] is not None
        ],
        **({"url": links[0]} if links else {}),
        "passedTests": passed,
        "warnedTests": warned,
        "failedTests": [],
    }


def payload(statement: Record) -> bytes:
    """Return the bytes that are signed: JSON with sorted names, without spaces, in ASCII."""
    return json.dumps(statement, sort_keys=True, separators=(",", ":")).encode()


def envelope(statement: Record, key_id: str, signature: str) -> dict[str, Any]:
    """Return the DSSE envelope of a statement; `signature` is base64."""
    signatures = [{"keyid": key_id, "sig": signature}]
    return {
        "payload": b64encode(payload(statement)).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": signatures,
    }


def envelopes(record: Record, key_id: str, signatures: Sequence[str]) -> list[dict[str, Any]]:
    """Return the passport of a landing: one envelope for each of its statements."""
    return [envelope(each, key_id, sig) for each, sig in zip(statements(record), signatures, strict=False)]


def verify(signed: Any, keys: Keys) -> dict[str, Any]:
    """Return the statement in an envelope, once one of these keys has proved it, to the byte. Raises PassportError."""
    # The library takes 0.1 s to import.
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import VerificationError
    from securesystemslib.signer import SSlibKey

    try:
        copy = {**signed, "signatures": [dict(each) for each in signed["signatures"]]}
        read = Envelope.from_dict(copy)
        exact = read.to_dict() == dict(signed) and read.payload_type == PAYLOAD_TYPE
        statement = json.loads(read.payload) if exact else None
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        raise PassportError(PassportErrorKind.MALFORMED, f"it is no DSSE envelope ({type(fault).__name__})") from None
    except Exception as fault:  # The library's own errors of form have no common class.
        raise PassportError(PassportErrorKind.MALFORMED, f"it is no DSSE envelope ({fault})") from None
    if not isinstance(statement, dict) or statement.get("_type") != STATEMENT:
        raise PassportError(PassportErrorKind.MALFORMED, "it holds no in-toto statement")
    known = [each for each in read.signatures if each in keys]
    if not known:
        ids = ", ".join(read.signatures) or "(none)"
        raise PassportError(PassportErrorKind.FOREIGN_KEY, f"no known key has the id {ids}")
    try:
        read.verify([SSlibKey.from_dict(each, json.loads(json.dumps(keys[each]))) for each in known], 1)
    except VerificationError:
        raise PassportError(PassportErrorKind.FORGED, "its signature does not fit") from None
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        raise PassportError(PassportErrorKind.FOREIGN_KEY, f"its key cannot be read ({fault})") from None
    return statement


def landing_of(passport: Sequence[Any], keys: Keys) -> dict[str, Any]:
    """Return the record that a passport proves: all its envelopes are signed, and say the same.

    Raises PassportError.
    """
    if not passport:
        raise PassportError(PassportErrorKind.MALFORMED, "it has no envelope")
    found = [verify(each, keys) for each in passport]
    record = found[0].get("predicate")
    if found[0].get("predicateType") != LANDING or not isinstance(record, dict):
        raise PassportError(PassportErrorKind.MALFORMED, f"its first statement is not of the type {LANDING}")
    try:
        expected = [payload(each) for each in statements(record)]
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        raise PassportError(PassportErrorKind.MALFORMED, f"its record lacks a part ({fault})") from None
    if expected != [payload(each) for each in found]:
        raise PassportError(PassportErrorKind.CONTRADICTORY, "its statements do not follow from its record")
    landed = datetime.fromisoformat(record["landed"]["at"])
    for until in (keys[each].get("until") for one in passport for each in _key_ids(one) if each in keys):
        if until is not None and landed > datetime.fromisoformat(until) + _TOLERANCE:
            raise PassportError(PassportErrorKind.FOREIGN_KEY, f"its key signed no more from {until} on")
    return record


def _key_ids(signed: Mapping[str, Any]) -> Iterator[str]:
    """Yield the ids of the keys of an envelope."""
    return (each["keyid"] for each in signed["signatures"])


def landing_in(line: Record, keys: Keys) -> dict[str, Any]:
    """Return the record that a line or an answer proves, with which the rest of it agrees. Raises PassportError."""
    record = landing_of(line.get("envelopes") or (), keys)
    within = {
        "commit": record["landed"]["commit"],
        "tree": record["landed"]["tree"],
        "repository_id": record["repository"]["id"],
        "base_branch": record["base"]["branch"],
        "number": record["members"][-1]["number"],
        "result": record["verdict"]["result"],
    }
    if {name: line.get(name) for name in within} != within:
        raise PassportError(PassportErrorKind.CONTRADICTORY, "its passport is of another landing")
    return record
