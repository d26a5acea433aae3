"""Slack shows texts of others as they are: no mention, no link, no markup."""

import json
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from notifications.sinks.message import FailingCheck
from notifications.sinks.slack import slack_payload
from tests.unit.notifications.sinks.messages import EJECTED, SITE

HOSTILE = st.one_of(
    st.text(max_size=300),
    st.lists(
        st.sampled_from(
            [
                "<!channel>",
                "<@U123>",
                "<#C1|x>",
                "`",
                "```",
                "<http://evil.example|ok>",
                "&lt;",
                "*",
                "_",
                "\n",
                ">",
                "|",
            ]
        ),
        max_size=300,
    ).map("".join),
)
TOKENS = re.compile(r"<([^>]*)>")
ALLOWED = ("https://github.com/", "https://imq.example/", "https://ci.example/")


def texts_of(body: bytes) -> list[str]:
    """All texts in which Slack reads markup."""
    found: list[str] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            found.extend(each for key, each in value.items() if key == "text" and isinstance(each, str))
            for each in value.values():
                walk(each)
        elif isinstance(value, list):
            for each in value:
                walk(each)

    walk(json.loads(body))
    return found


@given(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
@settings(max_examples=100, deadline=None)
def test_slack_message_has_no_markup_of_others(title: str, name: str, detail: str, url: str) -> None:
    """Whatever a title, a branch, a check, a login or an address says: the only links are IMQ's own."""
    message = EJECTED.model_copy(
        update={
            "title": title,
            "author": name,
            "branch": name or "main",
            "detail": detail,
            "by": name,
            "failing": (FailingCheck(check=title, url=url, jobs=(detail,)),),
        }
    )
    body = slack_payload(message, SITE)
    for text in texts_of(body):
        assert len(text) <= 3000
        for token in TOKENS.findall(text):
            assert token.startswith(ALLOWED), token
        outside = re.sub(r"`[^`\n]*`", "", TOKENS.sub("", text))
        assert "<" not in outside
        assert ">" not in outside
        for line in text.splitlines():
            assert line.count("`") % 2 == 0, line


def test_slack_message_names_what_happened_who_acts_and_the_failing_jobs() -> None:
    """A person sees in the channel what the comment on GitHub says."""
    text, links, *_ = [*texts_of(slack_payload(EJECTED, SITE))[1:]]
    assert text.splitlines() == [
        "❌ Removed from the queue for `main`",
        "<https://github.com/acme/rocket/pull/7|#7> `Add fuel` by `ada`",
        "A required check failed.",
        "• `ci/test`, `unit`, `lint` (<https://ci.example/1?a=b&amp;c|logs>)",
        "_Next, for the author:_ Push a fix, or rerun the check if it is flaky. Then comment `/queue` or add the label "
        "that queues it.",
    ]
    assert "<https://imq.example/repositories/acme/rocket/branches/main|Queue>" in links


def test_slack_message_has_a_text_for_notifications() -> None:
    """A phone shows it, and a screen reader reads it."""
    content = json.loads(slack_payload(EJECTED, SITE))
    assert content["text"] == "acme/rocket#7: ❌ Removed from the queue for `main`"
    assert content["blocks"][0]["text"]["verbatim"] is True
