"""The revisions, oldest first by name.

May not live here: imports of tables, which change after their revision.
"""
