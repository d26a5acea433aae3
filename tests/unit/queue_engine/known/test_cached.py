"""Which remembered answers a read made use of."""

from queue_engine.known.own_writes import remembered, remembered_answers


def test_answers_remembered_inside_are_those_of_the_innermost_block() -> None:
    """What a read forgets is its own: neither what was asked for before it, nor after."""
    remembered(lambda: None)
    with remembered_answers() as outer:
        with remembered_answers() as inner:
            remembered(inner.clear)
        remembered(outer.clear)
    remembered(lambda: None)
    assert (inner, outer) == ([inner.clear], [outer.clear])
