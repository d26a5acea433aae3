"""The verbs on the records: each part changes records as GitHub would and publishes events about it.

A part receives its siblings by name and never holds the whole. May not live here: JSON, HTTP, webhooks.
"""
