"""Opaque ids of requests."""

import pytest
from pydantic import SecretStr

from bot.web.live.request_watch import RequestIds
from github_emulator import KeyPair

IDS = RequestIds(SecretStr(KeyPair().private))


@pytest.mark.parametrize("request_id", ["0" * 32, "comment-7-42", "label-9223372036854775807-999999999-" + "a" * 16])
def test_opaque_id_leads_back_and_is_always_the_same(request_id: str) -> None:
    """Scripts watch a request by it, also after another page was loaded. It fits into addresses."""
    sealed = IDS.seal(request_id)
    assert (IDS.open(sealed), IDS.seal(request_id)) == (request_id, sealed)
    assert sealed.replace("-", "").replace("_", "").isalnum()
    assert 30 <= len(sealed) <= 120
    assert request_id not in sealed


def test_id_that_this_imq_did_not_make_is_none() -> None:
    """Neither the plain one, nor another IMQ's, nor an altered one."""
    sealed = IDS.seal("comment-7-42")
    other = RequestIds(SecretStr(KeyPair().private)).seal("comment-7-42")
    altered = sealed[:-2] + ("A" if sealed[-2] != "A" else "B") + sealed[-1]
    for each in ("comment-7-42", other, altered, sealed[:-3], "", "A" * 500, "\u00e4" * 40):
        assert IDS.open(each) is None
