"""Slack shows texts of others as they are: no mention, no link, no markup."""

import json
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from notifications.sinks.sink import EventKind
from notifications.sinks.slack import slack_payload
from queue_engine.domain.facts import FailingCheck
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
            "base_branch": name or "main",
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


def test_slack_message_of_long_texts_fits_and_ends_with_a_whole_line() -> None:
    """Slack refuses more than 3,000 characters; a cut line could open a code span or end within an entity."""
    long = FailingCheck(check="<" * 100, url=f"https://ci.example/{'a' * 900}", jobs=("&" * 100,) * 10)
    text = texts_of(slack_payload(EJECTED.model_copy(update={"failing": (long,) * 10}), SITE))[1]
    whole = texts_of(slack_payload(EJECTED.model_copy(update={"failing": ()}), SITE))[1].splitlines()
    assert len(text) <= 3000
    assert text.splitlines() == whole[:3]


def test_slack_message_links_no_address_with_a_user_or_another_scheme() -> None:
    """`https://github.com@evil.example` looks like another host than it is."""
    for url in (
        "https://github.com@ci.example/1",
        "javascript:alert(1)",
        "https://ci.example:x/",
        f"https://c/{'a' * 999}",
    ):
        failing = (FailingCheck(check="ci/test", url=url, jobs=()),)
        text = texts_of(slack_payload(EJECTED.model_copy(update={"failing": failing}), SITE))[1]
        assert text.splitlines()[3] == "• `ci/test`"


def test_slack_message_about_several_pull_requests_links_the_commit_that_tested_them() -> None:
    """A flake of a train's run has no single pull request; one that has a number but no title shows no empty title."""
    sha = "a" * 40
    several = EJECTED.model_copy(
        update={"kind": EventKind.FLAKE, "number": None, "title": None, "author": None, "reason": None, "sha": sha}
    )
    text, links = texts_of(slack_payload(several, SITE))[1:]
    assert text.splitlines()[1].startswith("These checks failed")
    assert f"https://github.com/acme/rocket/commit/{sha}|" in links
    one = several.model_copy(update={"number": 7})
    assert texts_of(slack_payload(one, SITE))[1].splitlines()[1] == "<https://github.com/acme/rocket/pull/7|#7>"
