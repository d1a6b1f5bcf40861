"""What a run reads of the database, and which changes affect it."""
