"""numexpr: the expression as a string."""

from __future__ import annotations

from typing import Any

import numexpr
import sources
import worker


class Numexpr(worker.Peer):
    name = "numexpr"
    header = "import numexpr\n"
    words = {
        **sources.NUMPY,
        "relu": "where({0} > 0, {0}, 0)",
        "sigmoid": "1 / (1 + exp(-({0})))",
        "tanh": "tanh({0})",
        "abs": "abs({0})",
        "maximum": "where({0} > {1}, {0}, {1})",
        "minimum": "where({0} < {1}, {0}, {1})",
    }

    def versions(self) -> str:
        return f"numexpr {numexpr.__version__}, {numexpr.nthreads} threads"

    def text(self, tree: Any) -> str | None:
        return f"return numexpr.evaluate({sources.expression(tree, self.words)!r})"


worker.serve(Numexpr())
