"""The web application: health, readiness, status, and the routes of webhooks and API."""
