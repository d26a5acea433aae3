"""Structured log lines, without secrets, and without characters that control a terminal."""
