"""Carry out plans for trains: build candidates, follow their checks, land them, delete their branches.

Plans themselves may not live here: they are pure functions in `queue_engine.planner.trains`.
"""
