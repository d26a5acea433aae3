"""Commands for authors, in the folder of a clone: log in, land, status, why.

They call IMQ's API with the standard library alone, so that they start fast and need no settings of a server.
"""
