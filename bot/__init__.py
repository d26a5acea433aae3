"""The outside of IMQ: settings, the GitHub gateway, the webhook receiver, the command line, wiring."""

__version__ = "0.1.0"
