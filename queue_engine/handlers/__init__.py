"""Entry points of the engine: webhooks, jobs and the reconciler. Each reads, and calls one room below."""
