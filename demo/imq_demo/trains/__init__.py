"""`imq demo --trains`: the same pull requests three times, in sequence and in trains, each with a bot of its own.

Lives here: the repository, its CI, the measures of each mode and the comparison. May not live here: decisions of IMQ.
"""
