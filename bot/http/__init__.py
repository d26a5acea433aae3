"""Serve HTTP: connections bounded in number, time and memory, and bodies read within limits.

Lives here: what holds for every request, from any sender. May not live here: routes, or what a request means.
"""
