"""The HTTP API under `/api/v1`: JSON in and out, bearer tokens, idempotency keys.

Lives here: routes, and what is asked and answered there, as models. May not live here: decisions about queues.
"""
