"""Log entry and exit of public methods at debug level, at next to no cost otherwise."""

import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from enum import Enum
from functools import wraps
from time import perf_counter
from types import FunctionType
from typing import Any, TypeVar, cast
from uuid import UUID

import structlog

T = TypeVar("T")

_LONGEST = 80
"""Characters of a text that are shown; of a longer one only its length."""

_SECRET = ("authorization", "password", "private", "secret", "token")
"""Arguments with these in their names are not shown at all."""


def logged(component: str) -> Callable[[T], T]:
    """Log `ENTER name` with the arguments and `EXIT name` with result and elapsed time, at debug level.

    For a method, or for a class: then for its public methods. One that is an asynchronous context manager is left when
    its body is. Payloads are never shown: of a collection its length, of an object its type and id, of a long text its
    length.
    """
    quiet = logging.getLogger(f"imq.{component}")
    log = structlog.get_logger(f"imq.{component}")

    def decorate(subject: T) -> T:
        if isinstance(subject, type):
            for name, member in list(vars(subject).items()):
                if not name.startswith("_") and isinstance(member, FunctionType) and _plain(member):
                    setattr(subject, name, _logged(member, quiet, log))
            return subject
        return cast(T, _logged(cast(FunctionType, subject), quiet, log))

    return decorate


def shown(value: object) -> object:
    """What the log shows of a value: small and harmless, whatever it is."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        text = value.value if isinstance(value, Enum) else value
        return text if len(text) <= _LONGEST else f"str of {len(text)}"
    if isinstance(value, Enum | UUID | date | timedelta):
        return str(value)
    name = type(value).__name__
    if isinstance(value, Collection):
        return f"{name} of {len(value)}"
    identity = getattr(value, "id", None)
    return f"{name} {identity}" if isinstance(identity, str | int) and len(str(identity)) <= _LONGEST else name


def _plain(function: FunctionType) -> bool:
    """Whether it is known when a call is over: not so for generators, which may be left behind half-way."""
    made_by_generator = inspect.isgeneratorfunction(inspect.unwrap(function))
    return not (made_by_generator or inspect.isasyncgenfunction(function))


@dataclass(frozen=True, slots=True)
class _Calls:
    """Log the calls of one method at their begin and at their end."""

    name: str
    signature: inspect.Signature
    log: Any

    def enter(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> float:
        self.log.debug(f"ENTER {self.name}", args=_arguments(self.signature, args, named))
        return perf_counter()

    def leave(self, started: float, result: object) -> None:
        self.log.debug(f"EXIT {self.name}", result=shown(result), elapsed=_elapsed(started))

    def failed(self, started: float, error: BaseException) -> None:
        self.log.debug(f"EXIT {self.name}", error=type(error).__name__, elapsed=_elapsed(started))

    async def awaited(self, started: float, work: Awaitable[Any]) -> Any:
        try:
            result = await work
        except BaseException as error:
            self.failed(started, error)
            raise
        self.leave(started, result)
        return result

    @asynccontextmanager
    async def surrounding(self, started: float, manager: AbstractAsyncContextManager[Any]) -> AsyncIterator[Any]:
        try:
            async with manager as given:
                yield given
        except BaseException as error:
            self.failed(started, error)
            raise
        self.leave(started, None)


def _logged(method: FunctionType, quiet: logging.Logger, log: Any) -> Any:
    calls = _Calls(method.__name__, inspect.signature(method), log)
    waits, surrounds = inspect.iscoroutinefunction(method), inspect.isasyncgenfunction(inspect.unwrap(method))

    @wraps(method)
    def call(*args: Any, **named: Any) -> Any:
        # No coroutine of its own while nobody listens: these run thousands of times a second.
        if not quiet.isEnabledFor(logging.DEBUG):
            return method(*args, **named)
        started = calls.enter(args, named)
        if waits:
            return calls.awaited(started, method(*args, **named))
        if surrounds:
            return calls.surrounding(started, method(*args, **named))
        try:
            result = method(*args, **named)
        except BaseException as error:
            calls.failed(started, error)
            raise
        calls.leave(started, result)
        return result

    return call


def _arguments(signature: inspect.Signature, args: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, object]:
    try:
        given = signature.bind(*args, **named).arguments
    except TypeError:
        return {}  # the call itself says what is wrong with it
    return {
        name: "[secret]" if any(word in name.lower() for word in _SECRET) else shown(value)
        for name, value in given.items()
        if name != "self"
    }


def _elapsed(started: float) -> str:
    return f"{(perf_counter() - started) * 1000:.1f}ms"
