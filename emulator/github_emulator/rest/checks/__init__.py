"""Endpoints of results on commits: check runs and suites, workflow runs, statuses.

Lives here: one module per noun. May not live here: which results a branch requires.
"""
