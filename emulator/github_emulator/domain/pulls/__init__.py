"""Pull requests apart from merging: their life, their stacks, and the conversation on them.

May not live here: branch rules and merges.
"""
