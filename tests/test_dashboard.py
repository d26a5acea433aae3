"""Grafana's dashboard: every figure is in it, every query can be asked, and Grafana can import it."""

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from bot.metrics import FAMILIES
from docs.dashboard import dashboard
from docs.generate import DASHBOARD
from tests.support.documents import read
from tests.test_alerts import check_names, check_queries, promtool

__all__ = ["promtool"]

CONTENT: dict[str, Any] = json.loads(read(DASHBOARD))
PANELS: list[dict[str, Any]] = CONTENT["panels"]
QUERIES = [(panel, target) for panel in PANELS for target in panel.get("targets", ())]
VARIABLES = {variable["name"]: variable for variable in CONTENT["templating"]["list"]}


def test_dashboard_is_what_the_metric_families_make() -> None:
    """A new figure gets its panel by `make docs`."""
    assert read(DASHBOARD) == dashboard()


def test_dashboard_shows_every_family_in_one_panel() -> None:
    """No figure is collected that nobody looks at, and none is shown twice."""
    shown = [{name for target in panel["targets"] for name in check_names(target["expr"])} for panel in panels()]
    assert all(len(names) == 1 for names in shown)
    asked = [name.removesuffix("_bucket") for names in shown for name in names]
    assert sorted(asked) == sorted(family.name for family in FAMILIES)


def panels() -> list[dict[str, Any]]:
    """The panels that are no rows."""
    return [panel for panel in PANELS if panel["type"] != "row"]


@pytest.mark.process
def test_queries_of_the_dashboard_can_be_asked(promtool: str, tmp_path: Path) -> None:
    """Prometheus's own parser takes each, with a time in place of the reader's choice."""
    asked = [
        target["expr"].replace("$window", CONTENT["templating"]["list"][1]["current"]["value"]) for _, target in QUERIES
    ]
    assert all("$" not in query for query in asked)
    check_queries(promtool, asked, tmp_path / "queries.yml")


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    """Grafana drops one of two panels with the same id, and moves panels that overlap."""
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    for one, other in combinations([panel["gridPos"] for panel in PANELS], 2):
        apart = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert apart or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in PANELS)


def test_dashboard_asks_the_prometheus_that_the_reader_chooses() -> None:
    """An imported dashboard knows no data source; a variable of that type offers those that exist."""
    assert VARIABLES["datasource"]["type"] == "datasource"
    assert VARIABLES["datasource"]["query"] == "prometheus"
    for panel, target in QUERIES:
        assert panel["datasource"] == target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def test_panel_has_a_title_a_meaning_and_queries_of_different_names() -> None:
    """A reader finds the meaning of the table in operating.md behind each panel's sign for help."""
    for panel in panels():
        assert panel["title"], panel
        assert panel["description"] in {family.help for family in FAMILIES}, panel
        assert panel["fieldConfig"]["defaults"]["unit"] in {"s", "short"}, panel
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references) > 0, panel
