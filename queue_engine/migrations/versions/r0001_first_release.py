"""The first release, whose tables `queue_engine.migrations.run` makes of those of the code."""

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Do nothing: no older database exists."""
