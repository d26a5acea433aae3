"""Check an installation of IMQ, and explain each finding with its remedy.

May not live here: writes to GitHub or to the database, decisions about queues.
"""
