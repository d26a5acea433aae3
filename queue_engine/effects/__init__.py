"""Write together what one transaction changes: the entry, the timeline, the outbox, the wake-ups.

May not live here: decisions, requests to GitHub, texts.
"""
