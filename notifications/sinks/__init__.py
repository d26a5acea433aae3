"""Messages to receivers outside GitHub: Slack, and signed webhooks.

Lives here: which sink wants which event, the messages, and what an answer means. May not live here: HTTP, GitHub, the
reading of settings.
"""
