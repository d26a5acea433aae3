"""`imq` of a release after this one: the same code, with one more revision of the kind that may follow a release.

`python -m tests.process.next_release COMMAND` runs a command of it. Nothing of it is in the product.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import sqlalchemy as sa
from alembic import op
from alembic.config import Config

from queue_engine import migrations
from queue_engine.migrations import run

PREVIOUS = migrations.HEAD
NEXT = f"{int(PREVIOUS) + 1:04}"
FOLDER = Path(__file__).with_name("next_release_versions")


def upgrade() -> None:
    """Add a column with a default, a column without one, a table and an index."""
    op.add_column("entries", sa.Column("note", sa.Text()))
    op.add_column("queues", sa.Column("notes", sa.Integer(), nullable=False, server_default=sa.text("0")))
    op.create_table("notes", sa.Column("id", sa.Integer(), primary_key=True), sa.Column("text", sa.Text()))
    op.create_index("ix_queues_created_at", "queues", ["created_at"])


@contextmanager
def next_release() -> Iterator[None]:
    """Let the code be that of the next release."""
    own = run._config

    def with_next(connection: sa.Connection | None = None) -> Config:
        config = own(connection)
        config.set_main_option("version_locations", f"{Path(run.__file__).parent / 'versions'}:{FOLDER}")
        return config

    of_next = patch.multiple(migrations, HEAD=NEXT, OLDEST=PREVIOUS)
    with of_next, patch.object(run, "_config", with_next):
        yield


if __name__ == "__main__":
    from bot.cli.main import main
    from tests.process import next_release as module

    # By its own name, so that the revision finds the same module, and the revision before.
    with module.next_release():
        main(sys.argv[1:], prog_name="imq")
