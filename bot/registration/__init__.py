"""Register the GitHub App: its manifest, the pages that lead through GitHub's manifest flow, and its credentials.

May not live here: how credentials are used, and statements for the database.
"""
