"""The shared core underneath: clock, backoff, database, job store.

Lives here: what any durable service needs. May not live here: any word of queues of pull requests or of GitHub.
"""
