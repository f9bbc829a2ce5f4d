"""Events between two ends: outbox, inbox, the session that joins them to a stream, and comparison."""
