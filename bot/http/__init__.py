"""Serve HTTP: connections bounded in number, time and memory, and bodies read within limits.

Lives here: limits of every request, from any sender. May not live here: routes, or the meaning of a request.
"""
