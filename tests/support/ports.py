"""Ports where nothing listens yet: for processes under test whose address is fixed, and for refused connections."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_port() -> Iterator[int]:
    """Hold a port of this machine, which a process under test may bind, again and again.

    The socket that holds it never listens, so connections are refused while no such process runs. Linux lets a second
    socket bind the same address if both set SO_REUSEADDR and neither listens (socket(7)), as asyncio, nginx and Go do.
    No other process gets the port when it binds port 0.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])
