"""Alembic's environment: runs revisions on the connection that `queue_engine.migrations` hands over."""

from alembic import context

from queue_engine.core.database import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
