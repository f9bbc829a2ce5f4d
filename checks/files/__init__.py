"""Files to be judged: which there are, what is in them, and which of them hold no whole object."""
