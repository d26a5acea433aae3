"""Collects the documents for the site, and lists them for language models: `make site`.

`zensical.toml` orders the documents. Zensical builds their pages from a copy that has the layout of the repository, so
that their links need no change. Every other file that a document links is copied as it is. The documents themselves
stand beside their pages, where `llms.txt` links them.
"""

import re
import shutil
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[1]
CONFIGURATION = ROOT / "zensical.toml"
HOME = "README.md"

_MARKDOWN = MarkdownIt().enable("table")
_PICTURE = re.compile(r'(?:src|srcset)="([^"]+)"')
_SCHEMES = re.compile(r'<picture>\n<source [^>]*srcset="([^"]+)">\n<img src="([^"]+)"([^>]*)>\n</picture>')
_SENTENCE = re.compile(r"(?:[^.:]|[.:](?!\s|$))+")
_COUNTED = frozenset({"h1", "h2", "h3", "h4", "ul", "ol", "li", "table", "tr", "pre", "blockquote", "code"})
_INDENTED = 4
"""Spaces before what belongs to an item of a list: Python's Markdown takes them literally, and GitHub's does not."""


def documents() -> Iterator[tuple[str, str]]:
    """Yield the section and the path of each document in the site, in the order of its pages."""
    for entry in tomllib.loads(CONFIGURATION.read_text(encoding="utf-8"))["project"]["nav"]:
        ((section, pages),) = entry.items()
        for page in [{section: pages}] if isinstance(pages, str) else pages:
            yield section, *page.values()


def llms() -> str:
    """Return `llms.txt`: each document with its first sentence."""
    lines, last = [f"# IMQ\n\n> {_first_sentence(_MARKDOWN.parse(_read(HOME)))}\n"], ""
    for section, path in documents():
        text = _read(path)
        if section != last:
            lines.append(f"\n## {section}\n\n")
            last = section
        title = text.partition("\n")[0].removeprefix("# ")
        lines.append(f"- [{title}]({path}): {_first_sentence(_MARKDOWN.parse(text))}\n")
    return "".join(lines)


def collect(source: Path) -> None:
    """Copy the documents, and what they link, to a folder."""
    pages = [path for _, path in documents()]
    for path in pages:
        text = _read(path)
        tokens = _MARKDOWN.parse(text)
        _write(source / path, _for_python(text, tokens))
        for linked in set(_links(path, tokens)).difference(pages):
            _copy(linked, source)


def finish(site: Path) -> None:
    """Put `llms.txt` and the documents beside their pages. Raises ValueError for a page that shows other elements."""
    shutil.copyfile(ROOT / "llms.txt", site / "llms.txt")
    for _, path in documents():
        shutil.copyfile(ROOT / path, site / path)
        page = (site / path).with_suffix(".html")
        page = page.with_name("index.html") if page.stem == "README" else page
        _, _, content = page.read_text(encoding="utf-8").partition("<article")
        shown = _Shown(content.partition("</article>")[0]).elements
        wanted = _Shown(_MARKDOWN.render(_read(path))).elements
        if shown != wanted:
            raise ValueError(f"{page}: {dict(shown)} in place of {dict(wanted)}")


def _read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _copy(path: str, source: Path) -> None:
    (source / path).parent.mkdir(parents=True, exist_ok=True)
    if (ROOT / path).is_dir():
        shutil.copytree(ROOT / path, source / path, dirs_exist_ok=True)
    else:
        shutil.copyfile(ROOT / path, source / path)


def _links(path: str, tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the files of the repository that a document links, by their paths."""
    for token in tokens:
        parts = [token, *(token.children or ())]
        links = [str(part.attrs.get("href") or part.attrs.get("src") or "") for part in parts]
        links += [found for part in parts if part.type.startswith("html") for found in _PICTURE.findall(part.content)]
        for link in links:
            target = link.partition("#")[0]
            if target and not re.match(r"[a-z]+:", target):
                yield str((ROOT / path).parent.joinpath(target).resolve().relative_to(ROOT))


def _for_python(text: str, tokens: Sequence[Token]) -> str:
    """Return a document as Python's Markdown has to have it, so that its page shows what GitHub shows.

    What belongs to an item of a list gets the spaces that it needs. A quotation after another one gets a comment before
    it, or both would be one. A picture for each colour scheme follows the one that the reader chooses.
    """
    lines = text.split("\n")
    added = [0] * len(lines)
    quoted = -1
    for token in tokens:
        begin, end = token.map or (0, 0)
        if token.type == "list_item_open":
            marker = re.match(r"\s*(\S+\s+)", lines[begin])
            assert marker is not None, lines[begin]
            for number in range(begin + 1, end):
                added[number] += _INDENTED - len(marker[1])
        elif token.type == "blockquote_open" and token.level == 0:
            if begin == quoted:
                lines[begin] = f"<!-- -->\n\n{lines[begin]}"
            quoted = next(number for number in range(end, len(lines) + 1) if number == len(lines) or lines[number])
    moved = "\n".join(" " * more * bool(line) + line for line, more in zip(lines, added, strict=True))
    return _SCHEMES.sub(r'<img src="\2#only-light"\3>\n<img src="\1#only-dark"\3>', moved)


def _first_sentence(tokens: Sequence[Token]) -> str:
    """Return the first sentence of a document, without its links."""
    for before, token in pairwise(tokens):
        plain = "".join(" " if part.type == "softbreak" else part.content for part in token.children or ())
        if before.type == "paragraph_open" and before.level == 0 and (found := _SENTENCE.match(plain.strip())):
            return f"{found[0]}."
    raise ValueError("a document without a paragraph")


class _Shown(HTMLParser):
    """Counts the elements of a page, or of what GitHub makes of its document, that must be the same in both."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: Counter[str] = Counter()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _COUNTED:
            self.elements[tag] += 1


if __name__ == "__main__":
    {"collect": collect, "finish": finish}[sys.argv[1]](Path(sys.argv[2]))
