"""A repository's own words: they replace ours, and reach no further."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notifications.render.body import custom_text
from notifications.render.comment import render_comment
from queue_engine.domain.notice import MARKER, Notice, NoticeKind, ReplyKind
from queue_engine.domain.reasons import Reason
from tests.unit.notifications.hostile import NASTY, flat, mentions
from tests.unit.notifications.notices import LANDED_EVENTS, answer, of_kind, of_reason

TEMPLATES = (
    "Thanks! It is on {base}.",
    "**{base}** and *{label}*",
    "`{base} {label}`",
    "`` {base}\n{label} ` ``",
    "[guide](https://dev.example/{base}?{label})",
    "[{base}]: https://dev.example/{label}",
    "- {base}\n- {label}",
    "# {base}\n{label}\n===",
    "<b title='{base}'>{label}</b>",
    "```\n{base}\n{label}",
    "@{base} #{label} GH-{label} www.{base}",
    "https://{base}/{label}",
    "> {base}\n    {label}",
    "a ` b\n{base} c {label}",
    "<!-- {base}",
    "{{{base}}}",
)
_PLAIN = {"text", "softbreak", "paragraph_open", "paragraph_close"}
SAFE = {"alice", "carol"}
"""Who is to act, and so is mentioned by IMQ itself."""


def worded(text: str, **changes: str) -> Notice:
    """A conflict, in the repository's own words."""
    return of_reason(Reason.CONFLICT).model_copy(update={"text": text} | changes)


def whole(notice: Notice) -> str:
    """A comment with everything that can follow the repository's words."""
    return render_comment(notice, events=LANDED_EVENTS, answer=answer(ReplyKind.HELP))


def tail(markdown: str) -> list[tuple[str, str]]:
    """What the parser sees of IMQ's own paragraphs: from whose move it is to the end of the comment."""
    shown = [(token.type, token.content) for token in flat(markdown)]
    texts = [place for place, (kind, words) in enumerate(shown) if kind == "text" and words.startswith("Next step, ")]
    return shown[texts[-1] :]


def test_own_words_stand_in_the_place_of_headline_and_explanation() -> None:
    """Marker, next step, reply and history stay; so do facts that only IMQ knows."""
    text = whole(worded("Sorry! See [our guide](https://dev.example/rebase)."))
    assert text.startswith(
        f"{MARKER} failed -->\nSorry! See [our guide](https://dev.example/rebase).\n\n**Next step, @alice @carol:**"
    )
    assert "conflicts with `main`" not in text
    assert "one of these commands" in text
    assert "<summary>History</summary>" in text
    landed = render_comment(of_kind(NoticeKind.LANDED).model_copy(update={"text": "Done."}))
    assert "Commit: abcdef0123456789abcdef0123456789abcdef01" in landed
    assert "Time in the queue: 1 h 5 min" in landed


def test_own_words_keep_their_markdown() -> None:
    """Emphasis, lists, headings, links and code of one line are theirs to use."""
    text = "## Hello\n\n- **one** `two`\n  - [three](https://dev.example/3)"
    assert custom_text(text, base="main", label="x") == text


@pytest.mark.parametrize(
    "text",
    [
        "<!-- ",
        "<!-- imq:comment -->",
        "<details>",
        "```\nnever closed",
        "~~~~",
        "- ```\n  in a list",
        "> ~~~",
        "<script>",
        "<![CDATA[",
        "@everybody @org/team",
        "octo/garden#1 #2 GH-3",
    ],
)
def test_own_words_cannot_swallow_or_call(text: str) -> None:
    """Custom text hides nothing that follows it, and mentions no account."""
    found = whole(worded(text))
    assert tail(found) == tail(whole(worded("words")))
    assert mentions(found) == SAFE
    assert found.count("<!--") == found.count(MARKER) == 1
    assert "#1" not in custom_text(text, base="", label="")


@given(template=st.sampled_from(TEMPLATES), base=NASTY, label=NASTY)
@settings(max_examples=150, deadline=None)
def test_own_words_foreign_names_in_them_mean_nothing_anywhere(template: str, base: str, label: str) -> None:
    """Whatever stands around a placeholder: no mention, no HTML, no address that was not there, no other structure."""

    def markup(markdown: str) -> Counter[str]:
        return Counter(token.type for token in flat(markdown) if token.type not in _PLAIN)

    text, harmless = (
        custom_text(template, base=b, label=w) for b, w in ((f"x{base}", f"x{label}"), ("xmain", "xlabel"))
    )
    assert mentions(text) == set()
    assert not any(token.type.startswith("html") for token in flat(text))
    assert "<!--" not in text
    # An address that a space breaks is no link any more: markup may be lost, never won.
    assert markup(text) <= markup(harmless)


@given(template=NASTY)
@settings(max_examples=100, deadline=None)
def test_own_words_of_any_text_leave_the_rest_as_it_is(template: str) -> None:
    """No text of a configuration changes what IMQ says after it."""
    found = whole(worded(f"x{template}"))
    assert tail(found) == tail(whole(worded("words")))
    assert mentions(found) == SAFE
    assert found.count("<!--") == found.count(MARKER) == 1
