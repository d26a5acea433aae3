"""Read a pull request with all that decides about it at once.

May not live here: what follows from a snapshot.
"""
