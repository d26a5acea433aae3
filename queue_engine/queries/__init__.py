"""Read models: why a pull request waits, and what blocks a queue. The comment, the API and the CLI render them.

Plain data, loaded in the caller's transaction. May not live here: writes, requests to GitHub, texts.
"""
