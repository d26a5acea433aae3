"""Requests to the receivers of messages.

Lives here: the HTTP client for sinks. May not live here: which message goes where, GitHub.
"""
