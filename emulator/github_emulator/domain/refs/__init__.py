"""Branches and tags that are created, moved and deleted, and what follows for pull requests.

May not live here: merges.
"""
