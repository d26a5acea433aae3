"""The HTTP API under `/api/v1`: JSON in and out, bearer tokens, idempotency keys."""
