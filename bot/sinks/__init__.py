"""Requests to the receivers of messages."""
