"""Attention on the processor as machine code of our own: products, softmax and products again, block by block."""
