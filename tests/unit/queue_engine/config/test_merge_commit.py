"""A merge commit's text: made from people's words, which cannot change its structure."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_engine.config.merge_commit import (
    body_template,
    commit_message,
    filled,
    needs_commits,
    title_template,
)
from queue_engine.domain.facts import CommitHistory, MergeCommit
from tests.unit.queue_engine.examples import pull


def title(template: str, **facts: Any) -> str | None:
    return commit_message(MergeCommit(template, None), pull(**facts), CommitHistory(), label="merge-queue").title


def body(template: str, *co_authors: str, **facts: Any) -> str | None:
    return commit_message(
        MergeCommit(None, template), pull(**facts), CommitHistory(co_authors), label="merge-queue"
    ).body


def test_commit_words_without_templates_are_githubs() -> None:
    """Who configures nothing keeps what the repository's settings on GitHub say."""
    assert commit_message(
        MergeCommit(None, None), pull(), CommitHistory(("A <a@example.com>",)), label="merge-queue"
    ) == MergeCommit(None, None)


def test_commit_words_hold_every_placeholder() -> None:
    """Each placeholder is what its description says."""
    template = "{title} #{number} {author} {base} {head} {label} {{x}}"
    facts = {"title": "Add", "number": 7, "author": "ada", "base_branch": "main", "head_branch": "add"}
    assert title(template, **facts) == "Add #7 ada main add merge-queue {x}"
    assert body(
        "{title} by {author}\n\n{body}\n\n{co_authors}", "B <b@x.org>", body="Why.", title="Add", author="ada"
    ) == ("Add by ada\n\nWhy.\n\nCo-authored-by: B <b@x.org>")


@pytest.mark.parametrize(
    "hostile",
    ["{number}", "{0.__class__}", "{{body}}", "%(title)s", r"\1 \g<0>", "$title", "{title!r:>9999999}"],
)
def test_commit_words_put_in_are_not_expanded_again(hostile: str) -> None:
    """A title with braces, or with the marks of any other template language, is a title."""
    assert title("{title} (#{number})", title=hostile) == f"{hostile} (#1)"
    assert body("{body}", body=hostile) == hostile


@pytest.mark.parametrize("gap", ["\n", "\r\n", "\r", "\u2028", "\x85", "\v", "\f", "\t \n"])
def test_commit_title_is_one_line(gap: str) -> None:
    """No title smuggles a line into a commit's message."""
    assert title("{title}", title=f"Add{gap}Signed-off-by: boss") == "Add Signed-off-by: boss"


def test_commit_title_that_comes_out_empty_is_githubs() -> None:
    """GitHub would refuse a commit without a title."""
    assert title("{title}", title=" \x00 ") is None


def test_commit_words_have_no_invisible_characters() -> None:
    """What is read is what is there: no escapes for terminals, no text that runs backwards."""
    assert title("{title}", title="a\x1b[31m\u202eb\x00c") == "a[31mbc"
    assert body("{body}", body="a\x1b[31m\u2066b\x00c\r\nd\te") == "a[31mbc\nd\te"


@pytest.mark.parametrize("word", ["[skip ci]", "[CI skip]", "[no ci]", "[skip actions]", "[actions skip]"])
def test_description_that_quotes_words_that_skip_ci_skips_none(word: str) -> None:
    """P1: the base would rest on a commit that CI never saw. Who has the words in a title or a template wants that."""
    skipped = word.strip("[]").replace(" ", "-")
    assert body("{body}", body=f"Without {word}") == f"Without {skipped}"
    assert body("{body_text}", body="Why\n\n\nskip-checks: true") == "Why\n\nskip-checks true"
    assert body("{body}\n\n[skip ci]", body="Why") == "Why\n\n[skip ci]"
    assert title("{title} {number}", title=f"Release {word}") == f"Release {word} 1"
    listed = commit_message(MergeCommit(None, "{commits}"), pull(), CommitHistory((), (f"Sync {word}",)), label="q")
    assert listed.body == f"- Sync {skipped}"


@pytest.mark.parametrize(
    "mention",
    ["@ada", "(@ada)", "谢@ada", "-@ada", "@@ada", "@ada.", "@ada-b's", "@ada_corp", "@acme/team", "@types/node"],
)
def test_commit_words_mention_no_one(mention: str) -> None:
    """P6: neither a person nor a team, wherever the name comes from."""
    broken = "@\u200b".join(mention.rsplit("@", 1))
    assert title("{title} by {author} {{x}}", title=mention, author="b") == f"{broken} by b {{x}}"
    assert title(f"a {mention} {{number}}") == f"a {broken} 1"
    assert body("{title}\n\n{body}", title=mention, body=mention) == f"{broken}\n\n{broken}"
    trailing = commit_message(
        MergeCommit(None, None), pull(title=mention), CommitHistory(), label="q", queued_by="b", trailer=True
    )
    assert trailing.body == f"{broken}\n\nQueued-by: b"


@pytest.mark.parametrize("address", ["a@x.org", "B <1+b[bot]@users.noreply.github.com>", "a.@x-y.org", "@", "@ ada"])
def test_commit_words_keep_addresses(address: str) -> None:
    """A co-author's address is one after the landing, too."""
    assert body("{title}\n\n{co_authors}", address, title=address) == f"{address}\n\nCo-authored-by: {address}"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Why.\n<!-- imq:cut -->\n- [ ] tested", "Why."),
        ("<!-- imq:cut --> all", ""),
        ("Template\n<!-- imq:start -->\nWhy.\n<!-- imq:cut -->\nRest", "Why."),
        ("Why.<!-- imq:cut -->a<!-- imq:start -->b", "b"),
        ("Why. <!-- kept -->", "Why. <!-- kept -->"),
        ("Why. <!-- IMQ:CUT --> x", "Why. <!-- IMQ:CUT --> x"),
    ],
)
def test_commit_body_is_what_stands_between_the_marks(text: str, left: str) -> None:
    """Checklists and templates of pull requests stay out of the history."""
    assert body("{body}", body=text) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [("a<!-- b -->c", "ac"), ("a<!-- b\nc", "a"), ("a<!-- b <!-- c -->d-->e", "ad-->e"), ("<!--" * 20_000, "")],
    ids=["closed", "open", "nested", "many"],
)
def test_commit_body_text_has_no_comments(text: str, left: str) -> None:
    """What GitHub does not show on the page is not in the commit either, if so asked."""
    assert body("{body_text}", body=text) == left


@pytest.mark.parametrize(
    "line",
    [
        "Signed-off-by: Boss <boss@example.com>",
        "co-authored-by: Boss <boss@example.com>",
        "Reviewed-By : Boss",
        "  Acked-by: Boss",
        "Signed\x00-off-by: Boss",
        "Signed-off<!-- -->-by: Boss",
    ],
)
def test_commit_body_cannot_forge_a_trailer_that_names_a_person(line: str) -> None:
    """A description that ends like a trailer names no author, reviewer or signer: IMQ quotes it."""
    found = body("{body_text}\n\n{co_authors}", body=f"Why.\n\n{line}")
    assert found is not None
    assert found.startswith("Why.\n\n> ")
    assert body("{title}\n\n{body_text}", title=line.replace("<!-- -->", ""), body="") == found.partition("\n\n")[2]


def test_commit_body_keeps_trailers_that_name_no_person() -> None:
    """`Fixes: #7` closes an issue as it did before."""
    assert body("{body}", body="Why.\n\nFixes: #7\nA tool by: nobody") == "Why.\n\nFixes: #7\nA tool by: nobody"


def test_commit_body_co_authors_are_a_block_of_their_own() -> None:
    """Each once, on one line, in the last paragraph: nothing before them is taken for a trailer beside them."""
    found = body("{body}{co_authors}", "A <a@x.org>", "A <a@x.org>", "B\nSigned-off-by: c <b@x.org>", body="Fixes: #7")
    assert found == "Fixes: #7\n\nCo-authored-by: A <a@x.org>\nCo-authored-by: B Signed-off-by: c <b@x.org>"
    assert body("{body}\n\n{co_authors}", body="Why.") == "Why."


@given(st.text(max_size=200), st.text(max_size=200))
def test_commit_words_of_anything_are_bounded_and_plain(first: str, second: str) -> None:
    """Whatever people write: a title of one line, and no trailer in the body that names a person."""
    templates = MergeCommit("{title} (#{number})", "{title}\n\n{body}\n\n{co_authors}")
    words = commit_message(
        templates, pull(title=first, body=second + "\nSigned-off-by: x"), CommitHistory(), label="go"
    )
    assert words.title is not None
    assert len(words.title.splitlines()) == 1
    assert not any(line.casefold().startswith("signed-off-by") for line in (words.body or "").split("\n"))


def test_commit_words_of_the_longest_are_cut() -> None:
    """P5: GitHub's limits for a merge's words are not reached by a long description."""
    words = commit_message(
        MergeCommit("{title} (#{number})", "{body}\n\n{co_authors}"),
        pull(title="t" * 5000, body="b" * 200_000),
        CommitHistory(tuple(f"{n} <{n}@x.org>" for n in range(500))),
        label="go",
    )
    assert words.title == "t" * 256 + " (#1)"
    assert len(words.body or "") < 60_000
    assert (words.body or "").count("Co-authored-by") == 50


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{titel}", r"unknown placeholder \"{titel}\"; did you mean title\?"),
        ("{title.__class__}", "unknown placeholder"),
        ("{}", "unknown placeholder"),
        ("{title", "an unpaired brace"),
        ("title}", "an unpaired brace"),
        ("{ title }", "an unpaired brace"),
        ("a\nb", "must be one line"),
        ("{body}", "unknown placeholder"),
    ],
)
def test_title_template_that_cannot_be_filled_is_refused(template: str, words: str) -> None:
    """A misspelt placeholder is found when the file is read, not in the history."""
    with pytest.raises(ValueError, match=words):
        title_template(template)


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{labels}", "unknown placeholder"),
        ("{body}{body}", "has {body} twice"),
        ("{co_authors}\n{body}", "must end with {co_authors}"),
    ],
)
def test_body_template_that_makes_no_sense_is_refused(template: str, words: str) -> None:
    """Trailers that git would not read, and descriptions that stand there twice, are mistakes."""
    with pytest.raises(ValueError, match=words):
        body_template(template)


def test_needs_commits_only_where_they_are_named() -> None:
    """P7: commits are not read for words that do not name their authors."""
    assert needs_commits("{body}\n{co_authors}")
    assert needs_commits("{commits}")
    assert not needs_commits("{body} {{co_authors}}")
    assert not needs_commits(None)


def test_filled_placeholder_without_value_stays() -> None:
    """Nothing breaks for want of a value."""
    assert filled("{a} {b}", {"a": "{b}"}) == "{b} {b}"


@pytest.mark.parametrize(
    ("template", "co_authors", "expected"),
    [
        (None, (), "Add\n\nQueued-by: ada"),
        ("{body}", (), "Why.\n\nQueued-by: ada"),
        ("", (), "Queued-by: ada"),
        ("{body}{co_authors}", ("B <b@x.org>",), "Why.\n\nCo-authored-by: B <b@x.org>\nQueued-by: ada"),
        ("by {queued_by}", (), "by ada\n\nQueued-by: ada"),
    ],
)
def test_trailer_names_who_queued_among_the_trailers(
    template: str | None, co_authors: tuple[str, ...], expected: str
) -> None:
    """An App's merge hides who decided: the commit says it, where the configuration asks for that."""
    given, facts = MergeCommit(None, template), pull(title="Add", body="Why.")
    words = {"label": "go", "queued_by": "ada\nSigned-off-by: eve"}
    assert (
        commit_message(given, facts, CommitHistory(co_authors), label="go", queued_by="ada", trailer=True).body
        == expected
    )
    forged = commit_message(
        given, facts, CommitHistory(co_authors), label="go", queued_by=words["queued_by"], trailer=True
    ).body
    assert "\nSigned-off-by: eve" not in (forged or "")
