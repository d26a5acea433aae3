"""Clocks, backoff and windows of time.

May not live here: the database, tasks, sleeping.
"""
