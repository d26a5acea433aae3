"""The demo: the real bot as a process of its own, a sandbox GitHub, ten pull requests, and a verdict.

It may import the sandbox and the terminal library; only the command that starts it may import the demo. The demo
observes the bot from outside, through GitHub and the database. May not live here: anything that the product needs.
"""
