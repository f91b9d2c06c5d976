"""Floor 6, the machine: the reference interpreter, and the linked form."""
