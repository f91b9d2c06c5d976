"""Decisions: which ready kernel runs a call (tier 1); fusion and recompilation come above it."""
