"""Branch protection and rulesets, read and cached.

May not live here: whether a pull request satisfies the rules.
"""
