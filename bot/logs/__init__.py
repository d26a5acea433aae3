"""Structured log lines, without secrets, and without characters that control a terminal.

Lives here: what holds for every line of any module. May not live here: which events are logged.
"""
