"""Foreign text stays text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notifications.render.escape import code, link, mention, one_line
from tests.unit.notifications.hostile import PARSER

HOSTILE = st.text(alphabet=st.one_of(st.sampled_from("`<!->[]()@#*_~\\&;:/|\n\r\t $ab1"), st.characters()), max_size=80)


@given(HOSTILE)
def test_code_any_text_is_one_code_span_and_nothing_else(text: str) -> None:
    """Whatever the text, at the start of a line or within one, a CommonMark parser sees a single code span."""
    for before, after in (("", ""), ("- ", ": x"), ("x ", " x")):
        tokens = PARSER.parse(before + code(text) + after)
        inline = [child for token in tokens if token.type == "inline" for child in token.children or []]
        assert [child.content.strip() for child in inline if child.type == "text"] == [
            part for part in (before.strip("- "), after.strip()) if part
        ]
        assert [child.type for child in inline if child.type != "text"] == ["code_inline"]


@given(HOSTILE)
def test_code_any_text_holds_no_comment_opening(text: str) -> None:
    """The raw text never contains what IMQ's own marker begins with."""
    assert "<!--" not in code(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("main", "`main`"),
        ("a`b", "``a`b``"),
        ("``", "``` `` ```"),
        ("", "`?`"),
        ("two\nlines\r\nhere", "`two lines here`"),
        ("<!-- imq:comment -->", "`<! -- imq:comment -->`"),
        ("\u202egpj.exe", "`gpj.exe`"),
    ],
)
def test_code_awkward_text_reads_well(text: str, shown: str) -> None:
    """What people see stays close to what was written."""
    assert code(text) == shown


def test_one_line_long_text_is_cut_with_an_ellipsis() -> None:
    """A message of any length takes a bounded place."""
    assert one_line("a" * 50, 10) == "a" * 9 + "…"
    assert one_line("a" * 10, 10) == "a" * 10


def test_link_unwelcome_address_is_a_plain_name() -> None:
    """Other schemes, hidden credentials, broken addresses and references to other issues become no link."""
    for url in [
        None,
        "",
        "javascript:alert(1)",
        "data:text/html,x",
        "//ci.example/x",
        "https://",
        "https://user:secret@ci.example/x",
        "https://ci.example:port/",
        "https://[::1/",
        " https://ci.example/",
        "https://ci.example/\u202e",
        "https://ci.example/\ud800",
        "https://github.com/octo/garden/issues/1",
        "https://github.com/octo/garden/iss%75es/1",
        "https://github.com//octo/garden/pull/1#issuecomment-2",
        "https://ci.example/" + "x" * 2000,
    ]:
        assert link("build", url) == "`build`", url


def test_link_address_with_markdown_in_it_is_encoded() -> None:
    """Brackets, quotes and angles cannot end the link early; an ordinary query survives."""
    url = 'https://ci.example:8443/job/a(b)?x=1&y=%20&lt;z#top">)](x)'
    assert link("build", url) == (
        "[`build`](https://ci.example:8443/job/a%28b%29?x=1&y=%20&lt%3Bz#top%22%3E%29%5D%28x%29)"
    )


@given(HOSTILE, HOSTILE)
def test_link_any_address_stays_inside_its_link(name: str, rest: str) -> None:
    """Whatever follows the host, the parser sees one link to that host around one code span, or no link."""
    markdown = link(name, f"https://ci.example/{rest}")
    (inline,) = [token for token in PARSER.parse(markdown) if token.type == "inline"]
    kinds = [child.type for child in inline.children or []]
    assert kinds in (["link_open", "code_inline", "link_close"], ["code_inline"])
    if kinds[0] == "link_open":
        assert inline.children is not None
        assert str(inline.children[0].attrs["href"]).startswith("https://ci.example/")


@pytest.mark.parametrize(
    ("login", "shown"),
    [
        ("alice", "@alice"),
        ("alice-b_corp", "@alice-b_corp"),
        ("dependabot[bot]", None),
        ("org/team", None),
        ("alice @bob", None),
        ("alice\n", None),
        ("-a", None),
        ("", None),
    ],
)
def test_mention_only_of_what_github_gives_out_as_a_login(login: str, shown: str | None) -> None:
    """Teams, Apps and anything with more in it than a login are never mentioned."""
    assert mention(login) == shown
