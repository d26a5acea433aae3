"""What branch protection and rulesets require of merges and pushes, and whether a change meets them.

May not live here: anything that moves a branch.
"""
