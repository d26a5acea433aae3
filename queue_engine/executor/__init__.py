"""Advance a leased queue: plan, store, act on GitHub, land.

May not live here: admission, and rules, which are pure functions in `rules` and `planner`.
"""
