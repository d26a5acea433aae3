"""Keep a process small and its start fast: a heap that returns what is free, modules without docstrings that stay,
and dataclasses that share code.
"""

import ctypes
import dataclasses
import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from operator import attrgetter
from reprlib import recursive_repr
from types import CodeType, ModuleType
from typing import Any

_OPTIONS = {"M_ARENA_MAX": (-8, 1), "M_MMAP_THRESHOLD": (-3, 32 * 1024), "M_TRIM_THRESHOLD": (-1, 128 * 1024)}
"""The numbers of parameters in glibc's `malloc.h`, and their values in bytes.

glibc gives each thread a heap, up to eight for each core, and returns little of them. IMQ's threads run SQLite and
parse files, one at a time: they gain nothing by it. Once a large block is freed, it also raises both thresholds, to 32
and 64 MiB: then large blocks come from the heap, whose gaps stay with the process. Thresholds that are set stay.
"""


def keep_small() -> bool:
    """Set these options of the C library; whether it has them. To be called before any thread starts."""
    try:
        library = ctypes.CDLL(None)
        return all(library.mallopt(parameter, value) for parameter, value in _OPTIONS.values())
    except (AttributeError, OSError, TypeError):  # Another C library, or another platform.
        return False


@contextmanager
def imported_for_good() -> Iterator[None]:
    """Import modules without a full search for garbage among what they define: a sixth of the time of a start.

    Libraries are imported without the parts that IMQ never uses, which are a tenth of its memory at the start.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(_NEW_OBJECTS, *_NO_FULL_SEARCH)
    before = sys.modules.get(_PICTURES)
    sys.meta_path.insert(0, _EngineAlone())
    if before is None:
        sys.modules[_PICTURES] = None  # type: ignore[assignment]
    try:
        with _sharing_code(), _without_docstrings():
            yield
    finally:
        del sys.meta_path[0]
        if before is None:
            sys.modules.pop(_PICTURES, None)
        gc.freeze()
        gc.set_threshold(*thresholds)


_NEW_OBJECTS, _NO_FULL_SEARCH = 10_000, (100_000, 100_000)
"""Each new object is looked at once, so that what an import leaves makes room for the next one."""

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


_Method = Callable[..., Any]


def _is_frozen(instance: Any, name: str) -> bool:
    """Whether this attribute of a frozen dataclass is frozen: only a subclass that is no dataclass has others."""
    return "__dataclass_fields__" in type(instance).__dict__ or name in instance.__dataclass_fields__


def _set(self: Any, name: str, value: Any) -> None:
    if _is_frozen(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _delete(self: Any, name: str) -> None:
    if _is_frozen(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


_set.__name__, _delete.__name__ = "__setattr__", "__delattr__"


def _frozen_methods(cls: type, fields: Any, globals: Any) -> tuple[_Method, _Method]:
    return _set, _delete


def _repr_method(fields: Sequence[dataclasses.Field[Any]], globals: Any) -> _Method:
    names = tuple(field.name for field in fields)

    def show(self: Any) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({values})"

    return _named("__repr__", recursive_repr("...")(show))


def _hash_method(fields: Sequence[dataclasses.Field[Any]], globals: Any) -> _Method:
    values = _values_of([field.name for field in fields])

    def number(self: Any) -> int:
        return hash(values(self))

    return _named("__hash__", number)


def _compare_method(name: str, op: str, self_tuple: str, other_tuple: str, globals: Any) -> _Method:
    if name != "__eq__":
        own: _Method = _OWN["_cmp_fn"](name, op, self_tuple, other_tuple, globals)
        return own
    values = _values_of([each.removeprefix("self.") for each in self_tuple.strip("(),").split(",") if each])

    def equals(self: Any, other: Any) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return _named(name, equals)


def _named(name: str, method: _Method) -> _Method:
    method.__name__ = name
    return method


def _values_of(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that returns the values of these fields."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda instance: tuple(getattr(instance, name) for name in names)


_SHARED: dict[str, _Method] = {
    "_frozen_get_del_attr": _frozen_methods,
    "_repr_fn": _repr_method,
    "_hash_fn": _hash_method,
    "_cmp_fn": _compare_method,
}
_OWN: dict[str, Any] = {name: getattr(dataclasses, name, None) for name in _SHARED}


@contextmanager
def _sharing_code() -> Iterator[None]:
    """Have dataclasses share the code of their methods, which Python compiles for each class: half of its 16 KB.

    Those that keep a class frozen also kept the class that `slots=True` replaced. Python 3.11 and 3.12 have these
    functions; a later one is left alone.
    """
    known = [name for name, own in _OWN.items() if own is not None and _parameters(own) == _parameters(_SHARED[name])]
    before = {name: getattr(dataclasses, name) for name in known}
    for name in known:
        setattr(dataclasses, name, _SHARED[name])
    try:
        yield
    finally:
        for name, own in before.items():
            setattr(dataclasses, name, own)


def _parameters(function: Any) -> tuple[str, ...]:
    return tuple(function.__code__.co_varnames[: function.__code__.co_argcount])


_HAS_DOCSTRING = 0x4000000 if sys.version_info >= (3, 13) else 0x2
"""`CO_HAS_DOCSTRING`; before, `CO_NEWLOCALS`: the first constant of a function was its docstring or None."""

_SHOWN = ("bot.", "click.")
"""Commands and calls of the API show the docstrings of their functions."""


@contextmanager
def _without_docstrings() -> Iterator[None]:
    """Import modules without the docstrings of functions, as `python -OO` does, which nothing reads: 2 MB."""
    get_code = SourceFileLoader.get_code

    def get_small_code(loader: SourceFileLoader, fullname: str) -> CodeType | None:
        code = get_code(loader, fullname)
        return code if code is None or fullname.startswith(_SHOWN) else _functions_without_docstrings(code)

    SourceFileLoader.get_code = get_small_code  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        SourceFileLoader.get_code = get_code  # type: ignore[method-assign]


def _functions_without_docstrings(code: CodeType) -> CodeType:
    constants = [_functions_without_docstrings(each) if type(each) is CodeType else each for each in code.co_consts]
    if code.co_flags & _HAS_DOCSTRING and constants and type(constants[0]) is str and not code.co_name.startswith("<"):
        constants[0] = None
    return code.replace(co_consts=tuple(constants))
