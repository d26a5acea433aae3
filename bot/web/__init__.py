"""The web application: health, readiness, status, and the routes of webhooks and API.

May not live here: what a delivery or a call of the API means.
"""
