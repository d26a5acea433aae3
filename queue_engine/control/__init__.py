"""Pause, freeze and resume queues at a person's request.

May not live here: permissions, which callers check; merges.
"""
