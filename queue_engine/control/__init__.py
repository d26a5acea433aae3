"""Pause, freeze and resume queues at a person's request.

May not live here: who may pause, which callers check; merges.
"""
