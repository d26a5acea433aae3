"""Tests of `bot.mcp`."""
