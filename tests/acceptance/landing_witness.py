"""A witness of every landing in every world: each is recorded once, and its passport proves it (P1)."""

import base64
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from bot.passport.keys import line_of, public_keys
from bot.passport.statement import landing_in
from docs.generate import ROOT
from queue_engine.domain.landing_record import LandingRecord
from queue_engine.domain.model import EntryStatus
from queue_engine.store import Store
from queue_engine.store.tables import timeline

SCHEMA = json.loads((ROOT / "docs" / "landing-v1.schema.json").read_text(encoding="utf-8"))


async def landings(store: Store) -> tuple[LandingRecord, ...]:
    """Every recorded landing, in order."""
    async with store.reading() as tx:
        return await tx.landings.since(None, 10_000)


async def assert_landings_proved(store: Store) -> None:
    """Fail where a landing has no record or several, or where a passport does not prove its landing."""
    async with store.reading() as tx:
        happened = await tx.connection.execute(timeline.select().where(timeline.c.event == EntryStatus.LANDED))
        # Rows that a test made by hand name no commit.
        events = Counter((row.repository_id, row.number, row.data["sha"]) for row in happened if row.data)
        keys = public_keys(await tx.landing_keys.all())
    found = await landings(store)
    recorded = Counter((each.repository_id, each.number, each.sha) for each in found)
    assert events - recorded == Counter(), "a landing without a record"
    assert max(recorded.values(), default=1) == 1, "a landing with several records"
    for each in found:
        record = landing_in(line_of(each), keys)
        assert record == each.record
        # A train of 20 is below 4 KB, too.
        assert len(json.dumps(record)) < 4096 + 128 * max(0, len(record["members"]) - 20)


def verified_by_hand(envelope: Mapping[str, Any], public: str) -> dict[str, Any]:
    """Verify an envelope with `cryptography` alone, by the text of DSSE and in-toto; returns its statement."""
    kind, payload = envelope["payloadType"].encode(), base64.b64decode(envelope["payload"], validate=True)
    # https://github.com/secure-systems-lab/dsse/blob/master/protocol.md: PAE(type, body).
    encoded = b" ".join([b"DSSEv1", str(len(kind)).encode(), kind, str(len(payload)).encode(), payload])
    [signature] = envelope["signatures"]
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
    key.verify(base64.b64decode(signature["sig"], validate=True), encoded)
    statement: dict[str, Any] = json.loads(payload)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    return statement
