"""Reading the project's documents."""

from collections.abc import Iterator

from docs.generate import ROOT


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def rows(text: str) -> Iterator[list[str]]:
    """The cells of every row of every table."""
    for line in text.splitlines():
        if line.startswith("| "):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]
