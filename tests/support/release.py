"""Check that a release is whole: `make release-check`, or `make release-check TAG=v1.2.3` for a tag.

Version, changelog, database of the release, tolerated revision, tags, demo and Helm chart must agree; CONTRIBUTING.md
has the recipe.
"""

import argparse
import re
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

import pygit2

import imq_demo
from bot import __version__
from docs.generate import ROOT
from queue_engine.migrations import HEAD, OLDEST
from tests.support.release_databases import MAKE, released

_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
_SECTION = re.compile(r"^## (\S+) \((unreleased|\d{4}-\d\d-\d\d)\)$\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Section:
    """The part of the changelog about one version."""

    version: str
    day: date | None
    """The day of the release; None if it is not released."""
    text: str


@dataclass(frozen=True, slots=True)
class Release:
    """All that must agree in a release."""

    version: str
    sections: tuple[Section, ...]
    head: str
    oldest: str
    databases: dict[str, str]
    """The revision of each release's database, by version."""
    tags: tuple[str, ...]
    demo: tuple[str, ...]
    """The versions that the demo's project names: its own, and that of the IMQ that it needs."""
    chart: tuple[str, ...]
    """The versions that the Helm chart names: its own, and that of the image."""


def ordered(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, by which versions are compared. Raises ValueError."""
    if (found := _VERSION.fullmatch(version)) is None:
        raise ValueError(f"{version} is no version: write three numbers such as 1.2.3")
    return tuple(map(int, found.groups()))


def sections_of(changelog: str) -> tuple[Section, ...]:
    """Read the sections, newest first. Raises ValueError for a heading or a date that is none."""
    headings = re.findall(r"^## .*", changelog, re.MULTILINE)
    found = _SECTION.findall(changelog)
    if len(found) != len(headings):
        raise ValueError("a heading of the changelog is not `## 1.2.3 (unreleased)` or `## 1.2.3 (2026-01-31)`")
    return tuple(
        Section(version, None if day == "unreleased" else date.fromisoformat(day), text.strip())
        for version, day, text in found
    )


def previous(release: Release) -> str | None:
    """Return the version that was released before this one; None if it is the first."""
    older = [version for version in release.databases if ordered(version) < ordered(release.version)]
    return max(older, key=ordered, default=None)


def faults(release: Release, *, today: date, tag: str | None = None) -> list[str]:
    """Return why this state of the project cannot be released; empty if it can."""
    try:
        ordered(release.version)
    except ValueError as problem:
        return [str(problem)]
    found = [*_of_changelog(release, today), *_of_database(release)]
    if tag is not None and tag != f"v{release.version}":
        found.append(f"the tag is {tag}, but bot/__init__.py has version {release.version}: tag it v{release.version}")
    known = {f"v{section.version}" for section in release.sections}
    if {*release.demo} != {release.version}:
        found.append(
            f"the demo names the versions {', '.join(release.demo)}: write {release.version} in "
            "demo/imq_demo/__init__.py, and in demo/pyproject.toml as that of the IMQ that it needs"
        )
    if {*release.chart} != {release.version}:
        found.append(
            f"the chart names the versions {', '.join(release.chart)}: write {release.version} in "
            "deploy/helm/imq/Chart.yaml as `version` and as `appVersion`"
        )
    found += [f"the changelog has no section for the tag {each}" for each in release.tags if each not in known]
    return found


def _of_changelog(release: Release, today: date) -> list[str]:
    first = release.sections[0] if release.sections else None
    if first is None or first.version != release.version:
        return [f"the first section of the changelog must be that of {release.version}"]
    if first.day is None:
        return [f"{release.version} is unreleased: write `## {release.version} ({today})` in the changelog"]
    if first.day > today:
        return [f"{release.version} has a date in the future: {first.day}"]
    return [] if first.text else [f"the changelog says nothing about {release.version}"]


def _of_database(release: Release) -> list[str]:
    found = []
    made = release.databases.get(release.version)
    if made != release.head:
        of = "missing" if made is None else f"at revision {made}, not {release.head}"
        found.append(f"the database of {release.version} is {of}: run `{MAKE}`")
    before = previous(release)
    tolerated = release.head if before is None else release.databases[before]
    if release.oldest > tolerated:
        found.append(
            f"OLDEST in queue_engine/migrations is {release.oldest}: processes of {before} (revision {tolerated}) "
            "could not run on these tables"
        )
    return found


def present() -> Release:
    """Read the state of the project. Raises ValueError as `sections_of` does."""
    named = [name.removeprefix("refs/tags/") for name in pygit2.Repository(ROOT).references]
    tags = [name for name in named if name.startswith("v")]
    sections = sections_of((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    needs = tomllib.loads((ROOT / "demo/pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    demo = (imq_demo.__version__, *(need.removeprefix("imq==") for need in needs if need.startswith("imq")))
    described = (ROOT / "deploy/helm/imq/Chart.yaml").read_text(encoding="utf-8")
    chart = tuple(re.findall(r"^(?:version|appVersion): (\S+)$", described, re.MULTILINE))
    return Release(__version__, sections, HEAD, OLDEST, released(), tuple(tags), demo, chart)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print every fault. Return 0 if the project can be released, else 1."""
    parser = argparse.ArgumentParser(prog="make release-check", description="Check that a release is whole.")
    parser.add_argument("--tag", help="the tag that is about to be pushed, such as v1.2.3")
    tag = parser.parse_args(arguments).tag
    try:
        found = faults(present(), today=datetime.now(UTC).date(), tag=tag or None)
    except ValueError as problem:
        found = [str(problem)]
    for fault in found:
        print(f"- {fault}")
    if not found:
        print(f"{__version__} can be released as v{__version__}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
