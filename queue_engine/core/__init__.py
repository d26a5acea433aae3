"""The shared core underneath: database, jobs, dead letters, idempotency keys, backoff, slots, clocks, traces.

Lives here: what any durable service needs. May not live here: any word of queues of pull requests or of GitHub.
"""
