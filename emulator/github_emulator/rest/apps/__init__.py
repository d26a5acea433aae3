"""Endpoints of the App itself: its installations, settings and deliveries, GraphQL, and figures of the service.

Lives here: one module per noun. May not live here: anything about one repository.
"""
