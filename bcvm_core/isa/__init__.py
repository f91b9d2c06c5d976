"""Floor 1, the language: opcodes, shape hints, signatures, programs and their two written forms."""
