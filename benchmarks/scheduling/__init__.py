"""How well policies decide which pull requests to test together: a simulation on virtual time, seeded.

Policies see what a merge queue sees: who waits, which run passed. Only `truth` knows which pull request is bad.
"""
