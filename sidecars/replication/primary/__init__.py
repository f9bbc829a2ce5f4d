"""The primary's side of replication: the log, and a stream with a cursor for each replica."""
