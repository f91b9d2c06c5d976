"""The code cache: kernels in memory (`memory`) and on disk (`disk`)."""
