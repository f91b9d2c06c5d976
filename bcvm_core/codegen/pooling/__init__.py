"""Maxima of windows of images as machine code of our own."""
