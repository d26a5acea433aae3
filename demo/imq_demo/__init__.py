"""The demo: the real bot as a process of its own, an emulated GitHub, ten pull requests, and a verdict.

Its distribution comes with IMQ's extra `demo`; only the command that starts it may import it. The demo observes the bot
from outside, through GitHub and the database. May not live here: anything that the product needs.
"""

__version__ = "0.1.0"
"""That of the IMQ that it shows."""
