"""Fusion: which marked regions may be fused, and why they were or were not."""
