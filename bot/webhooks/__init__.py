"""Deliveries: received, verified, and normalized to events of the engine.

May not live here: decisions. A delivery is stored, and its handler reads GitHub.
"""
