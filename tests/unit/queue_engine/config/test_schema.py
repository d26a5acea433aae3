"""The JSON Schema and the documents: editors and people read there what the parser accepts."""

import json
import re
from typing import Any

import jsonschema_rs
import pytest
from ruamel.yaml import YAML

from docs.generate import ROOT, SCHEMA
from docs.keys import schema
from queue_engine.config.document import ConfigError, parse
from queue_engine.config.file import json_schema
from queue_engine.config.parse import read
from tests.unit.queue_engine.config.test_policy import EVERYTHING, LAYERED

VALIDATOR = jsonschema_rs.validator_for(json_schema())
EXAMPLES = re.findall(
    r"^```yaml\n(.*?)^```$", (ROOT / "docs/configuration.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
)


def plain(text: str) -> Any:
    """As an editor sees the file, by another reader."""
    return json.loads(json.dumps(YAML(typ="safe", pure=True).load(text), default=str))


def test_schema_file_is_what_the_model_says() -> None:
    """`make docs` renews it; no editor uses yesterday's keys."""
    assert (ROOT / SCHEMA).read_text(encoding="utf-8") == schema()


def test_schema_takes_what_the_reader_takes() -> None:
    """Every example of the documents can be read, and no editor underlines it."""
    for text in [*EXAMPLES, EVERYTHING, LAYERED, "depth:\n", "{}"]:
        read(text)
        assert [error.message for error in VALIDATOR.iter_errors(plain(text))] == [], text


def test_examples_of_the_document_show_every_section() -> None:
    """The page has an example to copy of each part of the file."""
    shown = set().union(*(parse(text).value for text in EXAMPLES))
    assert {"merge", "blocking", "checks", "priority", "freeze", "branches"} <= shown


@pytest.mark.parametrize(
    "text",
    [
        "enabeld: true",
        "depth: 0",
        "depth: many",
        "merge: {method: sqaush}",
        "checks: {timeout: 20}",
        "checks: {timeout: soon}",
        "checks: {required: [{app: 3}]}",
        "branches: [{depth: 3}]",
        "freeze: {windows: [{from: '16:00'}]}",
        "trigger_labels: [7]",
        "priority: {labels: {a: {x: 1}}}",
    ],
)
def test_schema_refuses_what_the_reader_refuses(text: str) -> None:
    """What an editor can know to be wrong it underlines."""
    with pytest.raises(ConfigError):
        read(text)
    assert not VALIDATOR.is_valid(plain(text))
