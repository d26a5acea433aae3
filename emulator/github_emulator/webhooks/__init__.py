"""Webhooks: the payload of each event, the apps that receive it, and its delivery over HTTP.

May not live here: anything that changes a record other than deliveries.
"""
