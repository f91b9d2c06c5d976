"""Unmodified models of the public package mindcv, run by MindSpore and by BCVM."""
