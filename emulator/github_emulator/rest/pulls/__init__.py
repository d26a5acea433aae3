"""Endpoints of pull requests: their state, merge, comments, labels and issue events.

Lives here: one module per noun. May not live here: the rules that decide whether a merge is allowed.
"""
