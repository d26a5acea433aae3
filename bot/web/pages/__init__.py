"""The pages for people: Overview, queues, pull requests, requests and statistics.

May not live here: decisions about queues, who may see what (`bot/api/permissions.py`), and reads of tables (queries).
"""
