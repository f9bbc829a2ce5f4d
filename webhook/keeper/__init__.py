"""The process beside the review workers."""
