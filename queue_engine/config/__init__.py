"""A repository's configuration, `.github/imq.yml`: parsing, faults, and the policies that it makes.

Pure: text in, data out. May not live here: HTTP, the database, the clock, and where the text comes from.
"""
