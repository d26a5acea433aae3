"""Webhooks are signed as Standard Webhooks says, verified here by another implementation of HMAC."""

import base64
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.hmac import HMAC

from notifications.sinks.sink import headers, key_of
from tests.support.sink_receiver import SECRET

AT = datetime.fromtimestamp(1614265330, UTC)
BODY = b'{"test": 2432232314}'


def verify(found: dict[str, str], body: bytes, secret: str) -> None:
    """Verify the first signature as a receiver does. Raises InvalidSignature."""
    signer = HMAC(base64.b64decode(secret.removeprefix("whsec_")), hashes.SHA256())
    signer.update(f"{found['webhook-id']}.{found['webhook-timestamp']}.".encode() + body)
    version, _, signature = found["webhook-signature"].split()[0].partition(",")
    assert version == "v1"
    signer.verify(base64.b64decode(signature))


def test_signature_is_the_one_of_the_specifications_libraries() -> None:
    """The library `standardwebhooks` 1.1.0 signs this example with this signature."""
    found = headers("msg_p5jXN8AQM9LWM0D4loKWxJek", AT, BODY, [key_of(SECRET)])
    assert found == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",  # pragma: allowlist secret
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    verify(found, BODY, SECRET)


def test_signature_is_made_with_each_secret_while_one_is_replaced() -> None:
    """A receiver that knows only the old secret still accepts the message."""
    other = "whsec_" + base64.b64encode(bytes(range(32))).decode()
    both = headers("msg_1", AT, BODY, [key_of(other), key_of(SECRET)])["webhook-signature"].split()
    alone = [headers("msg_1", AT, BODY, [key_of(each)])["webhook-signature"] for each in (other, SECRET)]
    assert both == alone


@pytest.mark.parametrize("secret", ["", "hunter2", "whsec_", "whsec_c2hvcnQ=", "whsec_%%%%", SECRET[6:]])
def test_secret_that_receivers_cannot_use_is_refused_without_being_repeated(secret: str) -> None:
    """The error says how to draw one."""
    with pytest.raises(ValueError, match="openssl rand") as caught:
        key_of(secret)
    assert not secret or secret == "whsec_" or secret not in str(caught.value)
