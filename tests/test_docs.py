"""The documents say what the program does: what is generated is fresh, what is named exists."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pygit2
import pytest
from pydantic import SecretStr
from pydantic_core import PydanticUndefined

from bot.cli.main import main
from bot.registration.manifest import read_manifest
from bot.settings.environment import OF_AUTHORS, Settings
from docs.generate import DOCUMENTS, PARTS, ROOT, SKILL, SKILL_IN_PACKAGE, refreshed
from queue_engine.core.database.database import metadata
from tests.support.documents import read, rows
from tests.support.plain_words import PRIVATE

PAGES = tuple(sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*/README.md")]))
PAGE_NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
SETTINGS = {
    field.validation_alias: field.default
    for field in Settings.model_fields.values()
    if isinstance(field.validation_alias, str)
}


HOSTING = "docs/hosting/"
"""A page for each hosting platform, which docs/self-hosting.md links."""
BINARY = {".gz", ".png", ".ico", ".svg"}
PRODUCTION = ("bot", "notifications", "queue_engine")
VAGUE = re.compile(r"(?:what|who|whose|how|which|when|where|whether)\b", re.IGNORECASE)
ARCHITECTURE_WORDS = 2_200
"""A newcomer reads so many in ten minutes; the cells of tables count as well."""


def anchors(text: str) -> set[str]:
    """What GitHub makes of headings."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def code(text: str) -> list[str]:
    """Code spans, and the lines of code blocks."""
    blocks = re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [*re.findall(r"`([^`\n]+)`", text), *(line for block in blocks for line in block.splitlines())]


def test_generated_parts_of_a_document_are_what_the_code_says() -> None:
    """Comments, reasons and permissions in a document are never out of date; `make docs` renews them."""
    for name in DOCUMENTS:
        assert refreshed(read(name)) == read(name), name
    assert read(SKILL_IN_PACKAGE) == read(SKILL)


def test_generated_parts_are_all_used() -> None:
    """Nothing is generated that stands nowhere, and no document asks for a part in a file that is not renewed."""
    asked = {name: set(re.findall(r"<!-- generated: ([a-z-]+) -->\n", read(name))) for name in {*PAGE_NAMES, SKILL}}
    assert set().union(*asked.values()) - {"NAME"} == set(PARTS)
    assert {name for name, parts in asked.items() if parts} == set(DOCUMENTS)


def test_relative_links_of_a_document_lead_somewhere() -> None:
    """Every link to a file finds it, and every link to a heading as well."""
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            if target.startswith(("https://", "http://")):
                continue
            path, _, anchor = target.partition("#")
            found = (page.parent / path).resolve() if path else page
            assert found.exists(), target
            assert not anchor or anchor in anchors(found.read_text(encoding="utf-8")), target


def test_docstrings_of_modules_begin_with_a_verb_or_a_noun_of_the_field() -> None:
    """A newcomer who lists the modules reads what each does, and no riddle."""
    paths = [path for package in PRODUCTION for path in (ROOT / package).rglob("*.py")]
    found: list[str] = []
    # Revisions that were released are never edited; modules of texts are named by what they are the words for.
    for path in (path for path in paths if path.parent.name not in {"versions", "texts"}):
        with path.open(encoding="utf-8") as module:
            first = module.readline()
        sentence = first.strip().strip('r"')
        if not first.lstrip("r").startswith('"""') or VAGUE.match(sentence) or PRIVATE.search(sentence):
            found.append(f"{path.relative_to(ROOT)}: {sentence}")
    assert found == []


def test_architecture_takes_ten_minutes() -> None:
    """A newcomer reads the page to the end; the docstrings beside the code have the details."""
    assert len(read("ARCHITECTURE.md").replace("|", " ").split()) <= ARCHITECTURE_WORDS


def test_setting_stands_in_the_table_and_the_list_with_its_default() -> None:
    """An operator finds every setting, and the default that the code has."""
    for name in SETTINGS:
        row = next(cells for cells in rows(read("docs/operating.md")) if cells[0] == f"`{name}`")
        if name not in ("IMQ_LOG_FORMAT", "IMQ_BIND"):  # decided at run time: by the terminal, and by the platform
            assert row[1] == _default(SETTINGS[name]), name
        assert f"\n- `{name}`: " in read("docs/operating.md"), name


def test_settings_in_the_documents_are_all_in_the_code() -> None:
    """No document explains a setting that is gone."""
    # The last one is an example of a variable that is no setting.
    known = {*SETTINGS, *OF_AUTHORS, "IMQ_TEST_POSTGRES_URL", "IMQ_PORT"}
    for name in PAGE_NAMES:
        assert set(re.findall(r"`(IMQ_[A-Z_]+)`", read(name))) <= known, name


def _default(value: Any) -> str:
    if value is PydanticUndefined:
        return "required"
    if value in (None, ()):
        return "none"
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if isinstance(value, timedelta):
        value = value.total_seconds()
    return f"`{int(value) if isinstance(value, bool | float) else value}`"


def test_command_is_documented() -> None:
    """The table of the operator's page has every command of `imq --help`."""
    for command in main.commands:
        page = read("docs/operating.md").partition("\n## Commands\n")[2].partition("\n## ")[0]
        assert [cells for cells in rows(page) if re.match(rf"`imq {command}\b", cells[0])], command


def test_readme_takes_two_minutes_and_links_every_document() -> None:
    """A person who decides about IMQ reads the page to the end; the linked documents have the details."""
    readme = read("README.md")
    assert len(readme.split()) <= 1200
    linked = set(re.findall(r"\]\(([\w./-]+\.md)", readme))
    assert {name for name in PAGE_NAMES if name != "README.md" and HOSTING not in name} <= linked
    platforms = {f"docs/{page}" for page in re.findall(r"\]\((hosting/[\w./-]+\.md)", read("docs/self-hosting.md"))}
    assert {name for name in PAGE_NAMES if HOSTING in name} == platforms


def test_commands_and_targets_named_in_a_document_exist() -> None:
    """A reader who types what is written there gets no "unknown command" and no "no rule to make target"."""
    for name in PAGE_NAMES:
        targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))
        for span in code(read(name)):
            for target in re.findall(r"^make ([a-z-]+)", span):
                assert target in targets, span
            # What is not built yet is named as such, in one place.
            for command in re.findall(r"^(?:\.venv/bin/)?imq ([a-z]+)", span):
                assert command in main.commands or span in _not_built(), span


def _not_built() -> set[str]:
    return set(code(read("README.md").partition("\n## Not built yet\n")[2].partition("\n## ")[0]))


def test_what_is_not_built_yet_is_not_there() -> None:
    """A command that has been built leaves the list of those that have not."""
    assert {span.split()[1] for span in _not_built() if span.startswith("imq ")}.isdisjoint(main.commands)


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/operating.md"])
def test_modules_and_folders_named_in_a_document_exist(name: str) -> None:
    """A newcomer finds every file by the name under which it is described."""
    files = [str(path.relative_to(ROOT)) for folder in _PACKAGES for path in (ROOT / folder).rglob("*.py")]
    for span in code(read(name)):
        if re.fullmatch(r"[a-z_/]+\.py", span):
            assert any(file == span or file.endswith(f"/{span}") for file in files), span
        if re.fullmatch(rf"(?:{'|'.join(_PACKAGES)})/[a-z_/]*", span):
            assert (ROOT / span).is_dir(), span


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_classes_named_in_a_document_exist(name: str) -> None:
    """A newcomer who searches for a class by its name finds it, also after it got another one."""
    sources = (path.read_text(encoding="utf-8") for package in PRODUCTION for path in (ROOT / package).rglob("*.py"))
    defined = {found for source in sources for found in re.findall(r"^(?:class )?([A-Z]\w+)", source, re.MULTILINE)}
    named = {span.split(".")[0] for span in code(read(name)) if re.fullmatch(r"[A-Z][a-z]\w+(?:\.\w+)?", span)}
    assert named - defined <= {"Phase"}  # of hypothesis


def test_modules_of_the_shared_core_are_in_its_table() -> None:
    """A newcomer finds each module of the core with a few words about it, and none that is gone."""
    nouns = {path.stem for path in (ROOT / "queue_engine/core").rglob("[a-z]*.py")}
    assert nouns
    table = read("CONTRIBUTING.md").partition("## The shared core")[2].partition("## Glossary")[0]
    explained = {noun for row in rows(table) for noun in re.findall(r"`([a-z_]+)`", row[0])}
    assert nouns == explained


def test_tests_named_in_documents_and_docstrings_exist() -> None:
    """Who doubts a promise finds the test that holds it."""
    written = [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]
    written += [path for package in PRODUCTION for path in (ROOT / package).rglob("*.py")]
    named = {found for path in written for found in re.findall(r"\btest_\w+\.py\b", path.read_text(encoding="utf-8"))}
    assert named
    assert named <= {path.name for folder in ("tests", "emulator/tests") for path in (ROOT / folder).rglob("test_*.py")}


def test_events_that_an_operator_may_meet_are_in_the_table_of_the_log() -> None:
    """An operator never has to read the source to understand a warning."""
    logged = re.compile(r"log\.(?:warning|error|exception|critical)\(\s*\"([^\"]+)\"")
    found: set[str] = set()
    for package in ("bot", "notifications", "queue_engine"):
        for path in (ROOT / package).rglob("*.py"):
            # A monitor in memory watches requests of people, who see its errors on the page.
            if path.stem != "monitor":
                found |= set(logged.findall(path.read_text(encoding="utf-8")))
    assert found <= log_events()


def log_events() -> set[str]:
    """What the first column of the tables of log events names."""
    return named_in(read("docs/log-events.md"))


def named_in(page: str) -> set[str]:
    """What the first column of a page's tables names."""
    return {name for row in rows(page) for name in re.findall(r"`([^`]+)`", row[0])}


def test_events_in_the_table_of_the_log_are_logged() -> None:
    """An operator searches the log for no event that it never has."""
    paths = [path for package in PRODUCTION for path in (ROOT / package).rglob("*.py")]
    sources = "".join(path.read_text(encoding="utf-8") for path in paths)
    assert {event for event in log_events() if f'"{event}"' not in sources} == set()


def test_kinds_of_jobs_that_may_fail_for_good_stand_in_the_table_of_dead_letters() -> None:
    """An operator reads what a dead letter was to do, whatever its kind, and by the name that it has now."""
    paths = [path for path in (ROOT / "queue_engine").rglob("*.py") if "migrations" not in path.parts]
    kinds = {
        kind
        for path in paths
        for kind in re.findall(r"^[A-Z_]+_JOB = \"(\w+)\"", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    page = read("docs/operating.md").partition("\n## Dead letters\n")[2].partition("\n## ")[0]
    assert named_in(page) == kinds


def test_page_for_security_teams_names_every_table_permission_and_event() -> None:
    """Nothing that the database keeps, and no right of the App, is without its reason and its end."""
    page = read("docs/security.md")
    kept = page.partition("\n## What IMQ keeps\n")[2].partition("\n## ")[0]
    assert named_in(kept) == metadata.tables.keys()
    assert all(row[2] for row in rows(kept))
    rights = page.partition("\n## What IMQ may do on GitHub\n")[2].partition("\n## ")[0]
    manifest = read_manifest()
    permissions = {f"{name}: {level}" for name, level in manifest.permissions.items()}
    assert named_in(rights) == permissions | set(manifest.events)
    assert all(row[1] for row in rows(rights))


_PACKAGES = ("bot", "notifications", "queue_engine", "emulator", "demo", "tests", "benchmarks", "docs")


def test_tracked_files_hold_no_machines_paths_registries_or_loose_ends() -> None:
    """What is committed is true on every machine, and finished."""
    listed = [entry.path for entry in pygit2.Repository(ROOT).index]
    forbidden = re.compile(r"(?<![\w.:/])/(?:home|Users|root|work)/\w|--(?:extra-)?index-url|\b(?:TODO|FIXME)\b")
    found: list[str] = []
    for name in listed:
        path = ROOT / name
        if not path.is_file() or path.suffix in BINARY or path == Path(__file__):
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        found += [f"{name}: {line.strip()}" for line in lines if forbidden.search(line)]
    assert found == []


def test_threat_model_names_tests_that_exist() -> None:
    """Each wall is held by a test that attacks it."""
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", read("docs/threat-model.md"))
    assert len(named) >= 15
    for path, test in named:
        assert re.search(rf"^ *(async )?def {test}\(", read(path), re.MULTILINE), (path, test)
