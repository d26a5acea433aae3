"""Comments and check runs as Markdown. Pure functions.

May not live here: sentences, which are in `notifications.texts`; the database, GitHub.
"""
