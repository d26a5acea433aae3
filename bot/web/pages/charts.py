"""Charts of bars as SVG, drawn by pygal.

It adds a script, a style sheet and a tooltip to each, which the pages' Content-Security-Policy refuses, so they are
removed. The library is imported at the first chart, because it takes 8 MB.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from math import ceil, floor, log10
from typing import Any

from bot.web.pages.render import visible

_LABEL_LENGTH = 28
_ROW = 34
_MARGINS = 60
_KEPT = 64
"""Drawn charts of at most about 50 KB each: a page that is opened again draws those only whose figures changed."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: its name, its size, the text that says both, and the address of the pull requests behind it."""

    name: str
    value: float
    text: str
    address: str | None = None


@cache
def _library() -> Any:
    """Import pygal, without the hook that it adds to all later imports: Python warns of each that lacks `find_spec`.

    Where lxml is installed, pygal would build trees of lxml, which take no elements of Python's.
    """
    hooks = tuple(sys.meta_path)
    import pygal  # type: ignore[import-untyped]
    from pygal.etree import etree  # type: ignore[import-untyped]

    etree.to_etree()
    sys.meta_path[:] = hooks
    return pygal


def columns(key: str, title: str, description: str, bars: Sequence[Bar]) -> str:
    """Draw upright bars, as for days. `key` is unique on the page."""
    upright = _library().Bar

    every = max(1, len(bars) // 10)
    labels = [bar.name if index % every == 0 else "" for index, bar in enumerate(bars)]
    return _draw(upright, key, title, description, tuple(bars), height=260, x_labels=tuple(labels))


def rows(key: str, title: str, description: str, bars: Sequence[Bar]) -> str:
    """Draw bars beneath each other, the first on top. `key` is unique on the page."""
    lying = _library().HorizontalBar

    # pygal draws the first bar at the bottom.
    bars = tuple(reversed(bars))
    labels = tuple(_short(bar.name) for bar in bars)
    return _draw(lying, key, title, description, bars, height=_MARGINS + _ROW * len(bars), x_labels=labels)


@lru_cache(maxsize=_KEPT)
def _draw(
    kind: Any,
    key: str,
    title: str,
    description: str,
    bars: tuple[Bar, ...],
    *,
    height: int,
    x_labels: tuple[str, ...],
) -> str:
    # Imported at the first chart: most processes never need Python's XML.
    from xml.etree import ElementTree as Tree

    chart = kind(
        js=(),
        css=(),
        width=800,
        height=height,
        margin=8,
        show_legend=False,
        print_values=False,
        x_labels=list(x_labels),
        truncate_label=-1,
    )
    chart.add("", [{"value": bar.value, "xlink": {"href": bar.address}} if bar.address else bar.value for bar in bars])
    chart.value_formatter = _plain
    chart.y_labels = _scale(max((bar.value for bar in bars), default=0))
    drawn = chart.render_tree()
    _clean(drawn, bars)
    drawn.attrib.clear()
    drawn.attrib.update(
        {
            "class": "chart",
            "viewBox": f"0 0 800 {height}",
            "role": "group",
            "aria-labelledby": f"{key}-title",
            "aria-describedby": f"{key}-description",
        }
    )
    named = [Tree.Element("title", {"id": f"{key}-title"}), Tree.Element("desc", {"id": f"{key}-description"})]
    named[0].text, named[1].text = title, description
    for index, element in enumerate(named):
        drawn.insert(index, element)
    return visible(Tree.tostring(drawn, encoding="unicode"))


def _clean(drawn: Any, bars: Sequence[Bar]) -> None:
    """Keep axes and bars; name each bar, whose link is the only one."""
    from xml.etree import ElementTree as Tree

    for parent in list(drawn.iter()):
        for child in list(parent):
            overlay = "overlay" in child.get("class", "") if isinstance(child.tag, str) else True
            if overlay or child.tag in ("defs", "title", "desc", "script", "style"):
                parent.remove(child)
        for name in ("style", "id", "target"):
            parent.attrib.pop(name, None)
    marks = [element for element in drawn.iter("g") if element.get("class") == "bar"]
    for mark, bar in zip(marks, bars, strict=True):
        link = mark.find("a")
        heading = Tree.Element("title")
        heading.text = bar.text
        (mark if link is None else link).insert(0, heading)
        if link is not None:
            link.attrib.clear()
            link.set("href", bar.address or "")


def _scale(most: float) -> list[float]:
    """Return about five round values from 0 to the largest."""
    step = 10 ** floor(log10(most / 5)) if most > 5 else 1
    step *= next(factor for factor in (1, 2, 5, 10) if step * factor * 5 >= most)
    return [index * step for index in range(ceil(most / step) + 1)] if most else [0, 1]


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"


def _short(name: str) -> str:
    return name if len(name) <= _LABEL_LENGTH else f"{name[: _LABEL_LENGTH - 1]}…"
