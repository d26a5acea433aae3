"""Plan the next action for the front entry, and judge GitHub's answers for it. Pure functions."""
