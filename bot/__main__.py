"""`python -m bot` is the command `imq`."""

from bot.cli.main import main

main(prog_name="imq")
