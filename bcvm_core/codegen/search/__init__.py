"""Candidates for kernels that turned out to be hot: made by an optimising back end, in a process of their own."""
