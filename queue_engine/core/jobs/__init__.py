"""Stored jobs: the job store, its worker, dead letters, idempotency keys.

May not live here: what a job does, which its handler knows.
"""
