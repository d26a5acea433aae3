"""Pause, freeze and resume queues at a person's request."""
