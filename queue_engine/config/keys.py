"""Declare a key of the configuration as a field of the policy: default, kind of value, limit in a shared file, text.

An organisation's shared configuration may make a key stricter only: the key says in words how far, and computes it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import Any, NamedTuple

from queue_engine.config.kinds import Kind
from queue_engine.domain.policy import Candidates, GithubMergePolicy

Stricter = Callable[[Any, Any, Any], Any]
"""Computes the effective value from the operator's section, its value of the key, and the wanted value."""


class Shared(NamedTuple):
    """What a shared configuration may do with a key."""

    stricter: Stricter
    may: str
    """The change that it may make, in words."""
    risk: str = "nothing"
    """The risk of any other change; completes "because"."""


@dataclass(frozen=True, slots=True, eq=False)
class Key:
    """One key of the file, beside its type and its default."""

    kind: Kind
    shared: Shared
    text: str
    sections: tuple[str, ...] = ()
    last: str = ""

    @property
    def name(self) -> str:
        """With its section: `checks.timeout`."""
        return ".".join((*self.sections, self.last))

    def within(self, whole: Any) -> Any:
        """Find its section in a policy or a file; None where a file has no such section."""
        for name in self.sections:
            whole = getattr(whole, name)
        return whole


class Section(NamedTuple):
    """A section of the file."""

    of: type[Any]
    text: str
    short: Callable[[Any], Any] | None
    """Makes the section of one value, which the file may have in its place."""
    written: Any
    """The type of that value."""


def key(default: Any, kind: Kind, shared: Shared, text: str) -> Any:
    """Declare a key as a field."""
    metadata = {Key: Key(kind, shared, text)}
    if isinstance(default, dict):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


def section(of: type[Any], text: str, short: Callable[[Any], Any] | None = None, written: Any = None) -> Any:
    """Declare a section as a field."""
    return field(default=of(), metadata={Section: Section(of, text, short, written)})


def declared(of: type[Any]) -> Iterator[tuple[str, Key | Section]]:
    """Find the keys and sections among the fields of a policy or a section."""
    for each in fields(of):
        if found := each.metadata.get(Key) or each.metadata.get(Section):
            yield each.name, found


def keys_of(of: type[Any], sections: tuple[str, ...] = ()) -> Iterator[Key]:
    """Find all keys with their names, in their order."""
    for name, found in declared(of):
        if isinstance(found, Section):
            yield from keys_of(found.of, (*sections, name))
        else:
            yield replace(found, sections=sections, last=name)


def changed(whole: Any, values: Mapping[Key, Any]) -> Any:
    """Replace the values of these keys in a policy."""
    own = {each.last: value for each, value in values.items() if not each.sections}
    for name in {each.sections[0] for each in values if each.sections}:
        inner = {each.last: value for each, value in values.items() if each.sections == (name,)}
        own[name] = replace(getattr(whole, name), **inner)
    return replace(whole, **own)


def operators(_: Any, given: Any, __: Any) -> Any:
    """Keep the operator's value."""
    return given


def free(_: Any, __: Any, wanted: Any) -> Any:
    """Follow the file."""
    return wanted


def lower(_: Any, given: Any, wanted: Any) -> Any:
    """Take the lower or shorter value."""
    return min(given, wanted)


def longer(_: Any, given: Any, wanted: Any) -> Any:
    """Take the longer value."""
    return max(given, wanted)


def both(_: Any, given: bool, wanted: bool) -> bool:
    """Let the key be true if both say so."""
    return given and wanted


def added(_: Any, given: Any, wanted: Any) -> Any:
    """Add the wanted values to the operator's."""
    if isinstance(given, frozenset):
        return given | wanted
    return (*wanted, *(each for each in given if each not in wanted))


def common(_: Any, given: Any, wanted: Any) -> Any:
    """Keep only values that the operator has too."""
    return type(given)(each for each in wanted if each in given)


def narrowed(_: Any, given: Any, wanted: Any) -> Any:
    """Keep those of the operator's values, or all of them; any values where the operator has none."""
    return common(_, given, wanted) or given if given else wanted


def rather(*strictest: Any) -> Stricter:
    """Take the value that comes first in this order of values, the strictest first; others as the file says."""

    def choose(_: Any, given: Any, wanted: Any) -> Any:
        return next((each for each in strictest if each in (given, wanted)), wanted)

    return choose


def limit(none: int | None) -> Stricter:
    """Take the smaller number, where `none` is no limit."""

    def choose(_: Any, given: Any, wanted: Any) -> Any:
        return min((each for each in (given, wanted) if each != none), default=none)

    return choose


def known_labels(_: Any, given: tuple[str, ...], wanted: Iterable[str]) -> tuple[str, ...]:
    """Keep those of the operator's labels, or all of them."""
    known = {label.casefold() for label in given}
    return tuple(label for label in wanted if label.casefold() in known) or given


def auto_merge(_: Any, given: GithubMergePolicy, wanted: GithubMergePolicy) -> GithubMergePolicy:
    """Let GitHub merge past the queue, or its button queue, only where the operator does."""
    return given if wanted in {GithubMergePolicy.IGNORE, GithubMergePolicy.QUEUE} else wanted


def check_timeout(checks: Any, given: timedelta | None, wanted: timedelta | None) -> timedelta | None:
    """Take the shorter limit; if the operator's is `auto`, one up to the fallback."""
    longest = given or checks.fallback_timeout
    return wanted if wanted is not None and wanted <= longest else given


def exempt_labels(freeze: Any, given: frozenset[str], wanted: frozenset[str]) -> frozenset[str]:
    """Allow any label if the operator has no freezes: the shared file may exempt from its own."""
    return wanted & given if freeze.windows else wanted


def train_candidates(_: Any, given: Candidates, wanted: Candidates) -> Candidates:
    """Switch trains off, and not on."""
    return Candidates.OFF if wanted is Candidates.OFF else given
