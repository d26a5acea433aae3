"""Simulated CI systems: they learn of pushes and pull requests, and report check runs or commit statuses.

May not live here: the records of checks themselves (`github_emulator.domain.checks`).
"""
