"""Entries, facts, policies and reasons as plain data, and the ports to GitHub. No input or output."""
