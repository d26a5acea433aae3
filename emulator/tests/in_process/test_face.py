"""The stable face: what `github_emulator` exports, and that each part of it is documented."""

import inspect
from collections.abc import Iterator

import github_emulator


def undocumented(name: str) -> Iterator[str]:
    """What an exported name has without a docstring: itself, its public methods and its properties."""
    found = getattr(github_emulator, name)
    if not inspect.isclass(found):
        return
    if not found.__doc__ or found.__doc__.startswith(f"{name}("):
        yield name
    for part, value in vars(found).items():
        is_public = not part.startswith("_") and (inspect.isfunction(value) or isinstance(value, property))
        if getattr(value, "__name__", "") == "<lambda>":
            continue  # The guard of the landing gate stops the clock of the operating system.
        if is_public and not inspect.getdoc(getattr(found, part)):
            yield f"{name}.{part}"


def test_face_is_documented() -> None:
    """A person who reads `help(github_emulator)` needs no source."""
    assert [part for name in github_emulator.__all__ for part in undocumented(name)] == []


def test_face_has_each_name_once_and_nothing_else() -> None:
    """Modules below the package are private: only what is listed follows semantic versions."""
    assert len(github_emulator.__all__) == len(set(github_emulator.__all__))
    public = {name for name, value in vars(github_emulator).items() if not name.startswith("_")}
    modules = {name for name in public if inspect.ismodule(getattr(github_emulator, name))}
    assert public - modules == set(github_emulator.__all__)
