"""Plan the next action for the front entry, and judge GitHub's answers for it. Pure functions.

May not live here: the database, GitHub, the clock: facts and the instant are parameters.
"""
