"""Foreign text at its worst, and what GitHub's parser makes of a comment that holds it."""

import re
from collections.abc import Iterator

from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from queue_engine.domain.notice import MARKER

HOSTILE = st.text(alphabet=st.one_of(st.sampled_from("`<!->[]()@#*_~\\&;:/|\n\r\t $ab1"), st.characters()), max_size=60)
NASTY = st.one_of(
    HOSTILE,
    st.sampled_from(
        [
            MARKER,
            "@bob",
            "`@bob`",
            "`` @org/team ``",
            "#1",
            "octo/garden#1",
            "GH-1",
            "https://evil.example",
            "www.evil.example",
            "[x](https://evil.example)",
            "![x](https://evil.example/p.png)",
            "<img src=x>",
            "</sub><script>",
            "</details>@bob",
            "`<!-- imq:comment -->`",
            "a\n\n# heading\n\n@bob",
            "{label}{0}{base.__class__}",
            "{",
        ]
    ),
)
PARSER = MarkdownIt("commonmark")
"""As GitHub reads Markdown; made once, because to make one takes as long as to parse a comment."""

_OUTSIDE_CODE = re.compile(r"(?<![\w`])@([\w./\[\]-]+)")


def flat(markdown: str) -> Iterator[Token]:
    """Every token that the parser sees, inline ones in place of their paragraph."""
    for token in PARSER.parse(markdown):
        yield from (token.children or []) if token.type == "inline" else [token]


def mentions(markdown: str) -> set[str]:
    """Whom GitHub would notify: `@name` anywhere in text that is not code."""
    return {name for token in flat(markdown) if token.type == "text" for name in _OUTSIDE_CODE.findall(token.content)}


def skeleton(markdown: str) -> list[tuple[str, str]]:
    """The structure and IMQ's own words, with foreign text (code spans, addresses) left out."""
    return [
        (token.type, token.content if token.type in {"text", "html_block", "html_inline"} else "")
        for token in flat(markdown)
    ]
