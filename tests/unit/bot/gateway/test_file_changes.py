"""Which files differ between two commits and two trees, as GitHub lists them."""

import pytest

from tests.unit.bot.gateway.emulator_place import Place


async def test_changed_paths_of_a_base_name_both_ends_of_a_rename(place: Place) -> None:
    """And each file that was added, changed or removed; a second question costs no request."""
    before = place.handle.sha("main")
    text = "".join(f"line {number}\n" for number in range(9))
    middle = place.handle.push("main", {"old.py": text, "gone.py": "gone\n"}, by="mona")
    after = place.handle.push("main", {"old.py": None, "new.py": text, "gone.py": None}, by="mona")
    read = place.gateway.changed_paths
    assert await read(place.repository, "main", before, middle) == frozenset({"old.py", "gone.py"})
    assert await read(place.repository, "main", middle, after) == frozenset({"old.py", "new.py", "gone.py"})
    asked = len(place.server.requests)
    assert await read(place.repository, "main", middle, after) == frozenset({"old.py", "new.py", "gone.py"})
    assert len(place.server.requests) == asked


async def test_changed_paths_of_a_base_that_moved_back_are_unknown(place: Place) -> None:
    """What lies between the two does not show what the later one lacks."""
    before = place.handle.sha("main")
    after = place.handle.push("main", {"new.py": "new\n"}, by="mona")
    assert await place.gateway.changed_paths(place.repository, "main", after, before) is None


@pytest.mark.parametrize(("count", "known"), [(299, True), (300, False), (301, False)])
async def test_changed_paths_are_unknown_where_the_list_may_be_cut_off(place: Place, count: int, known: bool) -> None:
    """P1: GitHub lists 300 files, and does not say that there are more."""
    before = place.handle.sha("main")
    after = place.handle.push("main", {f"docs/{number}.md": f"{number}\n" for number in range(count)}, by="mona")
    found = await place.gateway.changed_paths(place.repository, "main", before, after)
    assert (found is not None) is known


@pytest.mark.parametrize(("most", "known"), [(100_000, True), (5, True), (2, False)])
async def test_differing_paths_of_trees_are_the_same_where_they_are_cut_off(
    place: Place, most: int, known: bool
) -> None:
    """A directory that even alone is cut off makes the answer unknown."""
    place.github.behaviour.most_tree_entries = most
    files = {"a/b/c/one.txt": "1\n", "a/b/two.txt": "2\n", "x/y.txt": "3\n"}
    before = place.handle.push("main", files, by="mona")
    changes = {"a/b/c/one.txt": "other\n", "a/b/two.txt": None, "n/e/w.txt": "new\n", "x/y.txt": None, "x": "file\n"}
    after = place.handle.push("main", changes, by="mona")
    landed = await place.gateway.commit(place.repository, after)
    found = await place.gateway.differing_paths(place.repository, place.handle.tree(before), landed)
    expected = {"a/b/c/one.txt", "a/b/two.txt", "n/e/w.txt", "x/y.txt", "x"}
    assert found == (expected if known else None)
