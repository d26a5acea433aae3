"""Endpoints of a repository: its settings, branches, files, commits and comparisons.

Lives here: one module per noun. May not live here: pull requests and checks.
"""
