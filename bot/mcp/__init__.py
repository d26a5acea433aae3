"""Tools for agents by the Model Context Protocol: what they are called, what they take, and the API call of each.

`bot/api/mcp_handler.py` serves them over HTTP, and `imq mcp` on a person's machine.
"""
