"""BCVM on the very text that NumPy is given."""

from __future__ import annotations

import sources
import worker
from with_bcvm import Bcvm

from bcvm_core import testing


class SameText(Bcvm):
    words = sources.NUMPY


assert testing.await_stencils(), "no stencils for this machine"
worker.serve(SameText())
