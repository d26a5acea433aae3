"""Write a replay as one page that asks for nothing: tables, and plots that answer "what if"."""

from collections.abc import Callable, Iterator, Sequence
from html import escape
from math import floor, log10

from bot.cli.clone.report_page import escaped, page_of
from bot.cli.replay.replays import Figure, Row, Variant
from bot.cli.replay.report import HEADS, NAMES, Replay, cells, shown

_STYLE = """
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); gap: 1rem; }
.plots figure { margin: 0; }
.plots svg { width: 100%; height: auto; font-size: 11px; }
.plots text { fill: var(--soft); }
.plots .axis { stroke: var(--line); fill: none; }
.plots .line { fill: none; stroke-width: 2; }
.plots .bar { stroke-width: 1; }
.plots .k0 { stroke: var(--bad); } .plots .k1 { stroke: var(--warn); } .plots .k2 { stroke: var(--accent); }
.plots text.k0 { fill: var(--bad); stroke: none; } .plots text.k1 { fill: var(--warn); stroke: none; }
.plots text.k2 { fill: var(--accent); stroke: none; }
.plots .k1.line { stroke-dasharray: 6 3; } .plots .k0.line { stroke-dasharray: 2 3; }
td.number, th.number { text-align: right; }
"""
_WIDTH, _HEIGHT = 420, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 16, 40, 34
_GRID = [times * 10.0**power for power in range(8) for times in (1, 2, 5)]
_QUESTIONS = {
    "failures": ("What if another share of pull requests failed?", "share that fails"),
    "ci_time": ("What if CI took another time?", "CI time in minutes"),
    "runs": ("What if other numbers of runs were active at once?", "runs at once"),
}


def replay_page(replay: Replay) -> str:
    """Return the page. Every text of the clone is escaped: its authors may be hostile."""
    estimates = "".join(
        f'<tr><th scope="row">{NAMES[name]}</th><td>{shown(name, each)}</td><td>{escaped(each.source)}</td></tr>\n'
        for name, each in replay.estimates.items()
    )
    heads = "".join(f'<th scope="col" class="number">{each}</th>' for each in HEADS[1:])
    rows = "".join(f"<tr>{_cells(each)}</tr>\n" for each in replay.rows)
    sentences = "".join(f"<p>{escaped(each)}</p>\n" for each in replay.sentences())
    plots = "".join(_plots(each, replay.variants) for each in _QUESTIONS) if replay.variants else ""
    body = f"""<h1>Replay</h1>
<p>{escaped(replay.history)}</p>
<table><thead><tr><th scope="col">Policy</th>{heads}</tr></thead><tbody>
{rows}</tbody></table>
{sentences}<h2>What the replay reckons with</h2>
<table><tbody>
{estimates}</tbody></table>
{plots}"""
    return page_of("Replay of a merge queue", body, _STYLE)


def _cells(row: Row) -> str:
    first, *others = cells(row)
    return f'<th scope="row">{escaped(first)}</th>' + "".join(
        f'<td class="number">{escaped(each)}</td>' for each in others
    )


def _plots(figure: str, variants: Sequence[Variant]) -> str:
    question, axis = _QUESTIONS[figure]
    chosen = [each for each in variants if each.figure == figure]
    waits = _Plot("wait p95", axis, figure, chosen, _wait, logarithmic=True).svg()
    runs = _Plot("CI runs for each landing", axis, figure, chosen, _runs_per_landing, logarithmic=False).svg()
    return f'<h2>{escape(question)}</h2>\n<div class="plots">\n{waits}{runs}</div>\n'


def _wait(row: Row) -> Figure | None:
    found = row.figures["p95"]
    return None if found is None else Figure(max(1.0, found.value), found.error)


def _runs_per_landing(row: Row) -> Figure | None:
    runs, landed = row.figures["runs"], row.figures["landed"]
    return (
        None
        if runs is None or landed is None
        else Figure(runs.value / max(1, landed.value), runs.error / max(1, landed.value))
    )


class _Plot:
    """Lines of policies over one figure, with error bars."""

    def __init__(
        self,
        title: str,
        axis: str,
        figure: str,
        variants: Sequence[Variant],
        measure: Callable[[Row], Figure | None],
        *,
        logarithmic: bool,
    ) -> None:
        self._title, self._axis, self._figure = title, axis, figure
        self._values = [each.value for each in variants]
        self._log = logarithmic
        self._lines: dict[str, list[Figure]] = {}
        for each in variants:
            for row in each.rows:
                # Trains and GitHub-like have their runs in their names, which differ along the axis of runs.
                name = row.policy.partition(",")[0] if figure == "runs" else row.policy
                self._lines.setdefault(name, []).append(measure(row) or Figure(0.0, 0.0))
        highest = max(each.value + each.error for line in self._lines.values() for each in line)
        lowest = min(each.value for line in self._lines.values() for each in line)
        self._low = max(each for each in _GRID if each <= max(1.0, lowest)) if logarithmic else 0.0
        self._high = min(each for each in _GRID if each > highest) if logarithmic else max(1.0, highest * 1.05)

    def svg(self) -> str:
        parts = "\n".join([*self._axes(), *self._drawn()])
        label = f"{self._title} by {self._axis}"
        return (
            f'<figure><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(label)}">\n{parts}\n'
            f"</svg><figcaption>{escape(label)}</figcaption></figure>\n"
        )

    def _x(self, value: float) -> float:
        place = self._values.index(value) / max(1, len(self._values) - 1)
        return _LEFT + 12 + place * (_WIDTH - _LEFT - _RIGHT - 24)

    def _y(self, value: float) -> float:
        if self._log:
            value = min(max(value, self._low), self._high)
            part = log10(value / self._low) / log10(self._high / self._low)
        else:
            part = value / self._high
        return _HEIGHT - _BOTTOM - part * (_HEIGHT - _TOP - _BOTTOM)

    def _axes(self) -> Iterator[str]:
        for tick in self._ticks():
            y = self._y(tick)
            yield f'<path class="axis" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>'
            yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{self._tick(tick)}</text>'
        for value in self._values:
            text = f"{value:.0%}" if self._figure == "failures" else f"{value:.3g}"
            yield f'<text x="{self._x(value):.1f}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle">{text}</text>'

    def _ticks(self) -> list[float]:
        if self._log:
            return [each for each in _GRID if self._low <= each <= self._high]
        step = 10.0 ** floor(log10(self._high))
        step = step / 5 if self._high / step < 2 else step / 2 if self._high / step < 5 else step
        return [step * count for count in range(int(self._high / step) + 1)]

    def _tick(self, value: float) -> str:
        return f"{value:,.0f} min" if self._log else f"{value:.3g}"

    def _drawn(self) -> Iterator[str]:
        for position, (name, line) in enumerate(self._lines.items()):
            kind = f"k{position + (len(self._lines) < 3)}"
            points = [(self._x(value), figure) for value, figure in zip(self._values, line, strict=True)]
            path = " ".join(f"{x:.1f},{self._y(figure.value):.1f}" for x, figure in points)
            yield f'<polyline class="line {kind}" points="{path}"/>'
            for x, figure in points:
                low, high = (self._y(figure.value + sign * figure.error) for sign in (-1, 1))
                yield f'<path class="bar {kind}" d="M{x:.1f} {low:.1f}V{high:.1f}"/>'
            yield f'<text class="{kind}" x="{_LEFT + position * 125}" y="{_TOP - 22}">{escaped(name)}</text>'
