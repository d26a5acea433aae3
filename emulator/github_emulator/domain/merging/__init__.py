"""Merges: whether a pull request can be merged, and each way to merge it.

May not live here: anything that another package of the domain needs.
"""
