"""The operator's settings, read from the environment and checked.

May not live here: defaults of a repository's own configuration, anything that changes while a process runs.
"""
