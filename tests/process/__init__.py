"""Tests that start IMQ as processes, kill them, and take their database away."""
