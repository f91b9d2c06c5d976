"""The memory in which products by the matrix unit work: what is where, and the sizes that the unit sets."""

from __future__ import annotations

from typing import Final

BAND: Final = 16  # rows of a register of the unit,
WIDE: Final = 16  # columns,
TERMS: Final = 32  # and terms of a sum: a chunk of the depth
CHUNK: Final = 3072  # bytes of the parts of a register's numbers for so many terms
BAND_MARKS: Final = 576  # bytes that say which numbers of a band were left out: a word of bits per row and chunk; in the end, whether any
ANY: Final = 512
TALL: Final = 256  # rows whose parts stay near while all tiles of a block pass
PANEL: Final = 32  # columns of a panel of b, as `panels_code.py` packs it: two tiles
B_SPLIT: Final = 32768  # within the memory for columns, behind a panel of them: parts of two tiles, of one that is multiplied and the next,
SIDE: Final = 24576
B_MARKS: Final = 81920  # which numbers of a tile were left out,
B_ZERO: Final = 82944  # zeros,
B_SUMS: Final = 83072  # sums of two tiles, as the unit gives them,
B_READY: Final = 87168  # what is split already: the address of a tile's numbers, 0 for none, and where its parts are;
B_PLACE: Final = 87176
B_WITH: Final = 87184  # and what is split while a tile is multiplied
B_NOTHING: Final = 87296  # -0.0 for each column of a tile: nothing changes when it is added,
B_BIAS: Final = 87360  # the bias of a panel that is not full,
B_HELD: Final = 87488  # and sums of two tiles that are not complete
HELD: Final = 16384
NOTHING: Final = -9223372034707292160  # twice -0.0
B_BYTES: Final = 120256
W_FROM: Final = 0  # of this: where its numbers are, two steps of the depth in 256 bytes,
W_TO: Final = 8  # where their parts go,
W_DONE: Final = 16  # so many pairs of steps are done
W_LEFT: Final = 24  # and so many left,
W_EACH: Final = 32  # of which so many with each chunk,
W_FAR: Final = 40  # and how far from there what is asked for;
W_SUMS: Final = 48  # where the sums are to which those of a tile are added,
W_SUMS_ROW: Final = 56  # and how far their rows are apart;
W_BIAS: Final = 64  # and what is added to complete sums
