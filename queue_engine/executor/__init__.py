"""Advance a leased queue: plan, store, send requests to GitHub, land."""
