"""The site of the documents: each has its place, its pages show what GitHub shows, and `llms.txt` is fresh."""

import tomllib
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from docs.generate import ROOT
from docs.site import CONFIGURATION, _for_python, collect, documents, finish, llms
from tests.support.documents import read

PAGES = {
    str(page.relative_to(ROOT)) for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*/README.md"))
}


def for_python(text: str) -> str:
    """The text as the site's Markdown needs it."""
    return _for_python(text, MarkdownIt().parse(text))


def test_every_document_has_one_place_in_the_site() -> None:
    """A reader finds each by the navigation; the README comes first."""
    found = [path for _, path in documents()]
    assert sorted(found) == sorted(PAGES)
    assert found[0] == "README.md"


def test_llms_txt_is_what_the_documents_say() -> None:
    """A language model reads the present documents; `make docs` renews the file."""
    assert read("llms.txt") == llms()


def test_site_is_light_and_dark_and_loads_nothing_from_elsewhere() -> None:
    """The reader chooses the colours, and no third party learns who reads."""
    project = tomllib.loads(CONFIGURATION.read_text(encoding="utf-8"))["project"]
    assert {each.get("scheme") for each in project["theme"]["palette"]} == {None, "default", "slate"}
    assert project["theme"]["font"] is False
    assert not {"extra_javascript", "extra_css"} & set(project)
    assert project["validation"] == {"invalid_links": True, "invalid_link_anchors": True}


def test_collected_documents_find_all_that_they_link(tmp_path: Path) -> None:
    """Pictures, configuration files and code that a document links are in the site."""
    collect(tmp_path)
    for path in ("docs/img/page-train-dark.png", "deploy/helm/imq/values.yaml", "app.yml", "emulator/README.md"):
        assert (tmp_path / path).exists(), path


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1. one:\n\n   ```sh\n   make\n   ```\n", "1. one:\n\n    ```sh\n    make\n    ```\n"),
        ("- one\n  more\n  - two\n    more\n", "- one\n    more\n    - two\n        more\n"),
        ("> one\n\n> two\n", "> one\n\n<!-- -->\n\n> two\n"),
        ("> one\n>\n> two\n", "> one\n>\n> two\n"),
        (
            '<picture>\n<source media="dark" srcset="b.png">\n<img src="a.png" alt="A">\n</picture>\n',
            '<img src="a.png#only-light" alt="A">\n<img src="b.png#only-dark" alt="A">\n',
        ),
    ],
)
def test_what_two_markdowns_read_differently_is_written_for_the_site(text: str, wanted: str) -> None:
    """Lists, quotations and pictures look as on GitHub; a second pass changes nothing in plain text."""
    assert for_python(text) == wanted
    assert for_python("A sentence.\n\n| a | b |\n| - | - |\n") == "A sentence.\n\n| a | b |\n| - | - |\n"


def test_page_that_lost_a_part_of_its_document_fails_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that became a paragraph is noticed."""
    monkeypatch.setattr("docs.site.documents", lambda: [("Contribute", "CHANGELOG.md")])
    page = tmp_path / "CHANGELOG.html"
    page.write_text(f"<article>{MarkdownIt().render(read('CHANGELOG.md'))}</article><ul></ul>", encoding="utf-8")
    finish(tmp_path)
    assert (tmp_path / "CHANGELOG.md").exists()
    page.write_text(page.read_text(encoding="utf-8").replace("<li>", "", 1), encoding="utf-8")
    with pytest.raises(ValueError, match=r"CHANGELOG\.html"):
        finish(tmp_path)
