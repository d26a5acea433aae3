"""Coordination of tasks in one process: slots, gates, batches, wake-ups, leases.

May not live here: tables, and any wait that has to survive its process.
"""
