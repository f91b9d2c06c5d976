"""Many threads and processes on one code cache that is damaged meanwhile: `python -m tests.stress.disk`."""
