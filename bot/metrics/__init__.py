"""Figures for Prometheus: what is counted and timed here, what the database says, and the page that tells all of it.

Lives here: names, meanings and exposition. May not live here: what decides anything by a figure.
"""

from bot.metrics.families import FAMILIES, Family, Kind
from bot.metrics.meter import Metrics

__all__ = ["FAMILIES", "Family", "Kind", "Metrics"]
