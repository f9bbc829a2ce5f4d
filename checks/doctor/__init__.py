"""`tiphys doctor`: is an installation well, line by line, and what to do where it is not."""
