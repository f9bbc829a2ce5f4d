"""`tiphys demo`: everything at work on three clusters, in this process or local."""
