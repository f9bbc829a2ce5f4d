"""`tiphys …`: turns arguments into calls and prints results, nothing else."""
