"""Advance a leased queue: plan, store, send requests to GitHub, land.

May not live here: admission, and rules, which are pure functions in `rules` and `planner`.
"""
