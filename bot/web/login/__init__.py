"""Login with GitHub, sessions, and the tokens that guard forms.

May not live here: what a person may see or do, which `bot/api/permissions.py` decides for pages and API alike.
"""
