"""Serve HTTP: connections bounded in number, time and memory, and bodies read within limits."""
