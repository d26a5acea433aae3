"""Rules for pull requests, entries and queues: eligibility, consent, required checks, blockers. Pure functions."""
