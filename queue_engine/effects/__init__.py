"""Write together what one transaction changes: the entry, the timeline, the outbox, the wake-ups."""
