"""One database, SQLite or PostgreSQL: transactions, outages, notifications.

May not live here: tables of queues or jobs.
"""
