"""The demo: the real bot as a process of its own, a sandbox GitHub, ten pull requests, and a verdict.

What lives here may import the sandbox and the terminal library; nothing else of `bot` may import it, except the
command that starts it. The demo watches the bot from outside: by what people see on GitHub, and by reading its
database. May not live here: anything that the product needs.
"""
