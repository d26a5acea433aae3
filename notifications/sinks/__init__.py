"""Messages to receivers outside GitHub: Slack, and signed webhooks."""
