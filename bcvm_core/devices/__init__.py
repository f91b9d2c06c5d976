"""Where tensors live: memory, operand classes, limits of the hardware."""
