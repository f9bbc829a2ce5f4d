"""`tiphys demo`: everything at work on four clusters, in this process or local."""
