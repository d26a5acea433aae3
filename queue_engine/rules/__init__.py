"""Rules for pull requests, entries and queues: eligibility, consent, required checks, blockers. Pure functions.

May not live here: the database, GitHub, the clock: facts and the instant are parameters.
"""
