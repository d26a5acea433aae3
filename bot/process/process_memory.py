"""Keep a process small and its start fast: a heap that returns what is free, and modules that stay as they are."""

import ctypes
import gc
import mimetypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import is_dataclass
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from types import ModuleType
from typing import Any

_OPTIONS = {"M_ARENA_MAX": (-8, 1), "M_MMAP_THRESHOLD": (-3, 32 * 1024), "M_TRIM_THRESHOLD": (-1, 128 * 1024)}
"""The numbers of parameters in glibc's `malloc.h`, and their values in bytes.

glibc gives each thread a heap, up to eight for each core, and returns little of them. IMQ's threads run SQLite and
parse files, one at a time: they gain nothing by it. Once a large block is freed, it also raises both thresholds, to 32
and 64 MiB: then large blocks come from the heap, whose gaps stay with the process. Thresholds that are set stay.
"""


def keep_small() -> bool:
    """Set these options of the C library; whether it has them. To be called before any thread starts.

    Garbage is looked for as often as Python 3.11 does: 3.13 waits for 2,000 objects, and a flood of requests took 60 MB
    more.
    """
    gc.set_threshold(700)
    try:
        library = ctypes.CDLL(None)
        return all(library.mallopt(parameter, value) for parameter, value in _OPTIONS.values())
    except (AttributeError, OSError, TypeError):  # Another C library, or another platform.
        return False


@contextmanager
def imported_for_good() -> Iterator[None]:
    """Import modules without a search for garbage among what they define: a sixth of the time of a start.

    Libraries are imported without the parts that IMQ never uses, which are a tenth of its memory at the start.
    """
    gc.disable()
    # aiohttp has them read at its import: thousands of lines, of which IMQ uses none.
    mimetypes.knownfiles.clear()
    before = sys.modules.get(_PICTURES)
    sys.meta_path.insert(0, _EngineAlone())
    if before is None:
        sys.modules[_PICTURES] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.meta_path[0]
        if before is None:
            sys.modules.pop(_PICTURES, None)
        _let_go_of_first_classes()
        gc.collect()
        gc.freeze()
        gc.enable()


def _let_go_of_first_classes() -> None:
    """Free the classes without slots that `dataclass(frozen=True, slots=True)` replaces: 0.9 MB of them at a start.

    `__setattr__` and `__delattr__` refer to the first class by `cls`, which keeps it, and compare types in vain. Before
    3.11.3, the second class also has the first one's descriptor of `__weakref__`, which serves none of its objects.
    """
    for second in [each for each in gc.get_objects() if isinstance(each, type) and is_dataclass(each)]:
        if "__slots__" not in vars(second):
            continue
        for name in ("__setattr__", "__delattr__"):
            for cell in getattr(vars(second).get(name), "__closure__", None) or ():
                if getattr(cell.cell_contents, "__qualname__", None) == second.__qualname__:
                    cell.cell_contents = second
        if getattr(vars(second).get("__weakref__"), "__objclass__", second) is not second:
            type.__delattr__(second, "__weakref__")


_PICTURES = "rich"
"""structlog imports it, if it is installed, for pictures of tracebacks that IMQ does not write. The demo needs it."""

_ASYNCIO = "sqlalchemy.ext.asyncio"


class _EngineAlone(MetaPathFinder, Loader):
    """Imports SQLAlchemy's asyncio extension without its sessions, which import the object mapper: 6 MB."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Find the package itself; its modules are found as ever."""
        if fullname != _ASYNCIO:
            return None
        found = PathFinder.find_spec(fullname, sys.modules["sqlalchemy.ext"].__path__)
        if found is None or found.origin is None:
            return found
        return spec_from_file_location(
            fullname, found.origin, loader=self, submodule_search_locations=found.submodule_search_locations
        )

    def create_module(self, spec: ModuleSpec) -> None:
        """Let Python create the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Import the engine; every other name is looked up in the modules that define it, at its first use."""
        engine = import_module(f"{_ASYNCIO}.engine")
        for name in ("AsyncConnection", "AsyncEngine", "create_async_engine"):
            setattr(module, name, getattr(engine, name))

        def other(name: str) -> Any:
            for each in ("engine", "result", "session", "scoping", "exc"):
                if hasattr(part := import_module(f"{_ASYNCIO}.{each}"), name):
                    return getattr(part, name)
            raise AttributeError(name)

        module.__getattr__ = other  # type: ignore[method-assign]
