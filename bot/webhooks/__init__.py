"""Deliveries: received, verified, stored, and normalized to events of the engine."""
