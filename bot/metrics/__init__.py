"""Figures for Prometheus: counters and timers of this process, figures of the database, and their page."""

from bot.metrics.families import FAMILIES, Family, Kind, Metrics

__all__ = ["FAMILIES", "Family", "Kind", "Metrics"]
