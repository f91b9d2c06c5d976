"""BCVM on the very text that NumPy is given."""

from __future__ import annotations

import sources
import worker
from with_bcvm import Bcvm

import bcvm_core as bcvm


class SameText(Bcvm):
    words = sources.NUMPY


assert bcvm.ready(), "no stencils for this machine"
worker.serve(SameText())
