"""The web application: health, readiness, status, and the routes of webhooks and API.

May not live here: handling of deliveries, or of calls of the API.
"""
