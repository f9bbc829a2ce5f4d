"""The standby's side of replication: following, writing, counting what is written, and the brakes."""
