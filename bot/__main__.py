"""`python -m bot` is the command `imq`."""

from bot.cli import main

main(prog_name="imq")
