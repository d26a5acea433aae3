"""The HTTP API under `/api/v1`: JSON in and out, bearer tokens, idempotency keys.

Lives here: routes, and models of their requests and responses. May not live here: decisions about queues.
"""
