"""The outside of IMQ: settings, the GitHub gateway, the webhook receiver, the command line, wiring.

Lives here: HTTP in both directions and process life. May not live here: decisions about queues, texts for authors.
"""

__version__ = "0.1.0"
