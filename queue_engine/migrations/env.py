"""Alembic's environment: it runs revisions on the connection of `queue_engine.migrations`."""

from alembic import context

from queue_engine.core.database.database import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
