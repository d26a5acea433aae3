"""Commands of `imq` that work on the database beside the running processes, a module for each group.

Lives here: parsing arguments and printing results. May not live here: rules of tokens or jobs.
"""
