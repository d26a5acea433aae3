"""Commands of `imq` that work on the database beside the running processes, a module for each group.

Lives here: what is read from the command line and printed there. May not live here: what is true of tokens or jobs.
"""
