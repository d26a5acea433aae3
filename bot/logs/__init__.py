"""Structured log lines, without secrets, and without characters that control a terminal.

Lives here: processing of every line of any module. May not live here: events to log.
"""
