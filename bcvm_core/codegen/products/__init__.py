"""Matrix products by machine code of our own: bits that depend on neither the number of rows nor that of threads."""
