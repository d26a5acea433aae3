"""The merge queue: entries, decisions, landing and persistence.

Lives here: everything that is true of a queue whatever carries the requests to GitHub. May not live here:
HTTP, gidgethub, texts that people read. GitHub is called through the ports of `queue_engine.domain.port`.
"""
