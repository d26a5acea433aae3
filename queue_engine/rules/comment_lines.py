"""Find the lines of a comment, or of a description, that speak to IMQ: neither quotes nor code. Pure.

It reads Markdown only as far as that takes, in one pass over the text, because anybody may write a comment. A line that
begins with a slash may have at most three blanks before it, and those only before any list. A counting line stands
neither in a quote (nor continues one), nor in fenced or indented code, a code span, an HTML comment, or in HTML that
quotes or shows code. Where GitHub's own reading would be intricate, the line does not count.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator

_LINE_END = re.compile(r"\r\n|\n|\r")
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_QUOTE = re.compile(r"\s*(?:(?:[-+*]|\d{1,9}[.)])\s+)*>")
_BLOCK_START = re.compile(r"\s*(?:[-+*]|\d{1,9}[.)])(?:\s|$)")
_BLOCK_ALONE = re.compile(r" {0,3}(?:#{1,6}(?:\s|$)|(?:[-_*=]\s*)+$)")
_BLANKS = re.compile(r"[ \u00a0]{1,3}(?=/)")
"""Also those that do not break: text that was copied has them."""
_TICKS = re.compile(r"(?<!\\)\\*`+")
_HTML = re.compile(
    r"(?P<open><!--|<\?|<!\[CDATA\[|<![a-z])|(?P<shut>-->|\?>|\]\]>|>)"
    r"|<(?P<end>/?)(?P<tag>pre|code|samp|kbd|tt|blockquote|q|script|style|textarea|template|title|svg|del|s|strike)\b",
    re.IGNORECASE,
)
_SHUT = {"<!--": "-->", "<?": "?>", "<![cdata[": "]]>"}
_TAG = re.compile(r"<[A-Za-z/!?]")
_HIDDEN = "\x00"


def counting_lines(text: str, counts: Callable[[str], bool], *, most: int) -> tuple[str, ...]:
    """Return the first lines for which `counts` holds, and which are no quote, no code and in no HTML."""
    lines = _without_blanks(_LINE_END.split(text))
    if not any(counts(line) for line in lines):
        return ()
    html = _Html()
    found: list[str] = []
    for block, quoted in _blocks(lines):
        shown = html.plain(_without_code("\n".join(block)))
        inline = _Inline()
        for line, typed in zip(shown, block, strict=True):
            if not quoted and line == typed and counts(line) and not inline.open:
                found.append(line)
            if len(found) == most:
                return tuple(found)
            inline.take(line)
    return tuple(found)


def _without_blanks(lines: list[str]) -> list[str]:
    """The lines without up to three blanks before a slash: more are code, and after a list they may be code in it."""
    at = next((place for place, line in enumerate(lines) if _BLOCK_START.match(line)), len(lines))
    return [line[found.end() :] if (found := _BLANKS.match(line)) else line for line in lines[:at]] + lines[at:]


def _blocks(lines: list[str]) -> Iterator[tuple[list[str], bool]]:
    """Runs of lines that belong together, each with whether it is a quote; lines of fenced code are left out."""
    block: list[str] = []
    fence, quoted = "", False
    for line in lines:
        if fence:
            closing = line.strip()
            if closing and set(closing) == {fence[0]} and len(closing) >= len(fence) and _FENCE.match(line):
                fence = ""
            continue
        opening = _FENCE.match(line)
        starts = opening or not line.strip() or _BLOCK_START.match(line) or (_QUOTE.match(line) and not quoted)
        if starts and block:
            yield block, quoted
            block, quoted = [], False
        if opening:
            fence = opening[1]
        elif line.strip():
            block.append(line)
            quoted = quoted or _QUOTE.match(line) is not None
            if _BLOCK_ALONE.match(line) and not quoted:
                yield block, False
                block = []
    if block:
        yield block, quoted


def _without_code(text: str) -> str:
    """The same with every character of a code span hidden, but for line ends."""
    runs = [
        (found.end() - len(found[0].lstrip("\\")), found.end(), (len(found[0]) - len(found[0].lstrip("\\"))) % 2)
        for found in _TICKS.finditer(text)
    ]
    last = {end - start: number for number, (start, end, _) in enumerate(runs)}
    shown, at, number = [], 0, 0
    while number < len(runs):
        start, end, escaped = runs[number]
        length = end - start - escaped
        closing = number + 1
        if length and last.get(length, 0) > number:
            while runs[closing][1] - runs[closing][0] != length:
                closing += 1
            stop = runs[closing][1]
            shown += [text[at:start], re.sub(r"[^\n]", _HIDDEN, text[start:stop])]
            at, closing = stop, closing + 1
        number = closing
    return "".join([*shown, text[at:]])


class _Html:
    """What HTML hides, quotes or shows as code, from one block to the next: nothing in it ends with its block."""

    def __init__(self) -> None:
        self._shut = ""
        self._open: Counter[str] = Counter()

    def plain(self, text: str) -> list[str]:
        """The lines of a block, with those hidden at whose beginning something is open."""
        shown, at = [], 0
        for line in text.split("\n"):
            shown.append(_HIDDEN if self._shut or self._open.total() else line)
            for found in _HTML.finditer(text, at, at + len(line)):
                self._meet(found)
            at += len(line) + 1
        return shown

    def _meet(self, found: re.Match[str]) -> None:
        if self._shut:
            if found["shut"] == self._shut:
                self._shut = ""
        elif found["open"]:
            self._shut = _SHUT.get(found["open"].lower(), ">")
        elif found["tag"] and not found["end"]:
            self._open[found["tag"].lower()] += 1
        elif found["tag"] and self._open[found["tag"].lower()]:
            self._open[found["tag"].lower()] -= 1


class _Inline:
    """What may go on from one line of a block to the next: a tag, or a link's address or title."""

    def __init__(self) -> None:
        self._tag = self._tags = self._code = self._definition = False
        self._link: tuple[bool, int, int] | None = None

    @property
    def open(self) -> bool:
        """Whether something may go on from the lines taken so far."""
        link = self._link is not None and (not self._link[0] or bool(self._link[1] % 2 or self._link[2] % 2))
        return self._tag or (self._tags and self._code) or self._definition or link

    def take(self, line: str) -> None:
        """Go on to the next line."""
        tag = max((found.start() for found in _TAG.finditer(line)), default=-1)
        if tag >= 0:
            self._tag, self._tags = ">" not in line[tag:], True
        elif ">" in line:
            self._tag = False
        self._code = self._code or "`" in line or _HIDDEN in line
        self._definition = self._definition or "]:" in line
        begins = line.rfind("](")
        shut, double, single = (False, 0, 0) if begins >= 0 or self._link is None else self._link
        if begins >= 0 or self._link is not None:
            tail = line[max(begins, 0) :]
            self._link = (shut or ")" in tail, double + tail.count('"'), single + tail.count("'"))
