"""Kernels over rows: softmax, normalisation, reductions, each read from memory as few times as the algorithm allows."""
