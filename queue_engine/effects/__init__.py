"""Writes of one transaction: the entry, the timeline, the outbox, the wake-ups. No decisions.

May not live here: the choice of what happens next, requests to GitHub, texts.
"""
