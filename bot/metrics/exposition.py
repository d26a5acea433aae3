"""Write Prometheus's text format: the figures of several processes on one page, without duplicates."""

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import Metric, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
"""The format that `text` writes."""


class _Page(Collector):
    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return iter(self._families)


def text(families: Sequence[Metric]) -> str:
    """Format the families as text; each name must occur once, as after `merged`."""
    return generate_latest(_Page(families)).decode()


def parsed(page: str) -> list[Metric]:
    """Parse families. Raises ValueError for invalid text."""
    return list(text_string_to_metric_families(page))


def with_process_label(process: str, families: Iterable[Metric]) -> list[Metric]:
    """Add the label `process` to every sample. Samples with times of creation are left out."""
    labeled = []
    for family in families:
        metric = Metric(family.name, family.documentation, family.type)
        metric.samples = [
            sample._replace(labels=sample.labels | {"process": process})
            for sample in family.samples
            if not sample.name.endswith("_created")
        ]
        labeled.append(metric)
    return labeled


def merged(*pages: Iterable[Metric]) -> list[Metric]:
    """Merge pages into one family per name. Samples that contradict an earlier page are left out.

    Processes of two versions run side by side during a deploy: a family that changed its type between them would make
    the whole page unreadable.
    """
    families: dict[str, Metric] = {}
    known_samples: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    for page in pages:
        for family in page:
            known = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            if known.type == family.type:
                known.samples += [sample for sample in family.samples if _is_new(sample, known_samples)]
    return list(families.values())


def _is_new(sample: Sample, known_samples: set[tuple[str, tuple[tuple[str, str], ...]]]) -> bool:
    identity = (sample.name, tuple(sorted(sample.labels.items())))
    if identity in known_samples:
        return False
    known_samples.add(identity)
    return True
