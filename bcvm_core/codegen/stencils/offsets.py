"""Where things lie in memory that generated code reads and writes: one list for the code and for the Python that fills it in.

A *descriptor* holds what an entry must know (`entry.py` writes it), `runtime` is a block of
addresses of the interpreter and of NumPy, a *job* is what `drive` works off, a *record* belongs to a
site. Offsets into array objects are checked before the first entry is made.
"""

from __future__ import annotations

from typing import Final

# array objects
TYPE: Final = 8
DATA: Final = 16
NDIM: Final = 24
DIMS: Final = 32
STRIDES: Final = 40
DESCR: Final = 56
FLAGS: Final = 64
C_ORDER: Final = 1
F_ORDER: Final = 2
IS_ALIGNED: Final = 256
BYTES_HEAD: Final = 32  # where a bytes object's bytes begin

# runtime: addresses
R_NDARRAY: Final = 0
R_EMPTY: Final = 8
R_NONE: Final = 16
R_TRUE: Final = 24
R_INCREF: Final = 32
R_DECREF: Final = 40
R_VECTORCALL: Final = 48
R_TUPLE: Final = 56
R_TUPLE_SET: Final = 64
R_SAVE_THREAD: Final = 72  # give the interpreter's lock away
R_RESTORE_THREAD: Final = 80
R_SET_HANDLER: Final = 88  # NumPy's way to choose who allocates; 0 where results are not recycled
R_HANDLER: Final = 96
R_RETURN: Final = 104  # makes a scalar of an array without axes

# descriptor
D_INPUTS: Final = 0
D_OUTPUTS: Final = 8
D_RUNTIME: Final = 16
D_CONSTANTS: Final = 24
D_SLOW: Final = 32  # Python function that takes whatever the entry does not
D_UNDERFLOW: Final = 40  # Python function: may an underflow be ignored?
D_LIMIT: Final = 48  # more elements than this go to D_SLOW, which uses several threads
D_RELEASE: Final = 56  # with more elements than this the interpreter's lock is given away
D_HELD: Final = 64  # Python object that keeps the codes: a call without the interpreter's lock holds on to it
D_CODES: Final = 72  # how many codes follow
D_CODE: Final = 80  # per code: which inputs are repeated (bits), address, bytes of context
CODE_SIZE: Final = 24
CODES_MAX: Final = 6
GATHERED_MAX: Final = 256  # calls on no more elements don't wait for code of their own: inputs of one element are copied out for other code
D_OPERANDS: Final = 224  # per operand, inputs first: address of its dtype, bytes of an element
OPERAND_SIZE: Final = 16
MAX_OPERANDS: Final = 16

# descriptor of a kernel over rows: as above, with these in the place of the codes
L_KERNEL: Final = 72  # kernel(outer, n, inner, x, result, arguments)
L_COLUMNS: Final = 80  # the same where inner is not 1; 0: there is none
L_FIRST: Final = 88  # the first and the last reduced axis, counted as Python does
L_LAST: Final = 96
L_FORM: Final = 104  # of the result: 0 as x, 1 without the reduced axes, 2 with 1 in their place
L_QUIET: Final = 112  # 1: floating-point events are nobody's business
L_EPS: Final = 120  # a double
L_LESS: Final = 128  # degrees of freedom; rows must be longer
L_ARGUMENTS: Final = 48  # bytes of a kernel's arguments: two pointers, eps, degrees of freedom, first column and how many (0: all)

# job of `line_job`
L_JOB_KERNEL: Final = 0
L_JOB_OUTER: Final = 8
L_JOB_COUNT: Final = 16
L_JOB_INNER: Final = 24
L_JOB_X: Final = 32
L_JOB_Y: Final = 40
L_JOB_MODE: Final = 48
L_JOB_STATUS: Final = 56
L_JOB_ARGUMENTS: Final = 64

# descriptor of a chain of kernels over blocks of rows: as above up to the codes, and its operands stand where a kernel's do
X_NDIM: Final = 72  # axes of the full shape
X_INNER: Final = 80  # how many of them, the last ones, make a row
X_FORM: Final = 88  # of the results, as L_FORM
X_STAGES: Final = 96
X_LONG: Final = 104  # how many stages can be run over a part of a row; 0: rows are never cut
X_BYTE: Final = 112  # the dtype of one byte
X_PRESENT: Final = 120  # per input: bit d where axis d of the full shape is not 1, and its axes << 16
X_LENGTHS: Final = 480  # per axis of a row: the length it must have, or 0
X_BUFFERS: Final = 544
X_BUFFER: Final = 552  # per buffer: 1 for an element per row, 0 for all elements of rows; bytes of an element
BUFFER_SIZE: Final = 16
X_STAGE: Final = 704
STAGE_SIZE: Final = 192
STAGES_MAX: Final = 16
CHAIN_INPUTS_MAX: Final = 8
BUFFERS_MAX: Final = 8
G_KIND: Final = 0  # of a stage: one of the kinds below
G_CODE: Final = 8
G_CONTEXT: Final = 16
G_CONSTANTS: Final = 24
G_QUIET: Final = 32  # 1: floating-point events are nobody's business
G_COUNT: Final = 40  # operands
G_MASK: Final = 48  # operands that are the same all along a row, or from row to row (bits)
G_EPS: Final = 56  # a double
G_LESS: Final = 64
G_BLOCK: Final = 72  # of a reduction: the kernel for a part of a row, and the one that puts parts together
G_FINISH: Final = 80
G_PART: Final = 88  # bytes of a part's result
G_PLACE: Final = 96  # per operand: number of an input, 8 + of a buffer, 16 + of an output; of a reduction: operand, result, parameters
PLACES_MAX: Final = 12
OF_ROWS: Final = 0
OF_NUMBERS: Final = 1  # one element per row
OVER_ROWS: Final = 2  # a kernel over rows
FIRST_BUFFER: Final = 8
FIRST_OUTPUT: Final = 16
CHAIN_BYTES: Final = 24576  # of buffers, about: they stay in the nearest cache
CHAIN_STACK: Final = 32768  # larger ones come from the heap
CHAIN_MOST: Final = 8388608  # with more than this, of rows that can't be cut, there is nothing left to keep near
CHAIN_PART: Final = 4096  # elements of a part of a row: whole blocks of the tree, a power of two of them
CHAIN_CUT: Final = 16384  # rows that are longer are cut, where they can be

# forms of calls of a kernel over rows (`rows/direct.py` writes them)
K_RUNTIME: Final = 0
K_FORMS: Final = 8
K_FORM: Final = 16
K_NAMES: Final = 0  # of a form: how many names; -1: none such
K_COUNT: Final = 8  # operands of the kernel
K_KERNEL: Final = 16  # the bytes object that is `self` of the kernel's entry
K_NAME: Final = 24  # per name: the text object, and the object that is its value, or the place among the operands
FORM_SIZE: Final = 104
FORM_NAMES_MAX: Final = 5
FORMS_MAX: Final = 6
TUPLE_SIZE: Final = 16  # of a tuple object: how many items, the first
TUPLE_ITEMS: Final = 24

# one run of a chain
T_LEFT: Final = 0  # axes of the rows after joining, at least one
T_N: Final = 8
T_ROWS: Final = 16
T_BLOCK: Final = 24  # rows at a time
T_SCRATCH: Final = 32  # bytes of buffers
T_PARTS: Final = 40  # of each row; 0: rows are not cut
T_EVENTS: Final = 48  # results
T_WORD: Final = 56
T_PARTIAL: Final = 64  # where results of parts go
T_SHAPE: Final = 128
T_DIMS: Final = 192
T_POINTERS: Final = 256
T_STRIDES: Final = 320
T_PLACES: Final = 832  # per place: address, bytes from row to row, bytes from element to element
PLACE_SIZE: Final = 24
T_SIZE: Final = 1408

# job of `chain_job`
H_DESC: Final = 0
H_ARGS: Final = 8
H_OUTS: Final = 16
H_START: Final = 24  # which of the first of the joined axes, or of the parts of the only row
H_STOP: Final = 32
H_MEMORY: Final = 40
H_PARTIAL: Final = 48
H_WHAT: Final = 56  # 0: rows, 1: parts of the only row, 2: what follows them, 3: sizes
H_MODE: Final = 64
H_EVENTS: Final = 72
H_WORD: Final = 80
H_FIRST: Final = 88  # results of 3: the first joined axis, parts, bytes of buffers
H_PARTS: Final = 96
H_SCRATCH: Final = 104
H_SIZE: Final = 112

# job of `drive`
J_CODE: Final = 0
J_CONSTANTS: Final = 8
J_CONTEXT: Final = 16
J_NDIM: Final = 24
J_DIMS: Final = 32
J_COUNT: Final = 40
J_POINTERS: Final = 48
J_STRIDES: Final = 56
J_MODES: Final = 64  # per operand: 0 as it lies, 1 gathered before, 2 scattered after
J_SIZES: Final = 72
J_WORD: Final = 80  # result: events noted by algorithms
J_STATUS: Final = 88  # result: floating-point status bits that were raised
J_MODE: Final = 96  # floating-point mode of the thread that called, 0: that of the thread that runs

# record of a site (`region_entry.py` writes it)
S_PLAIN: Final = 0  # address of a number: not 0 where everything runs as plain Python
S_THREAD: Final = 8  # address of PyThreadState_Get
S_TRACE: Final = 16  # where a thread keeps its trace function
S_REGION: Final = 24  # Python object that takes what the site does not
S_KERNEL: Final = 32  # the bytes object that is `self` of the kernel's entry
S_INPUTS: Final = 40
S_GUARDS: Final = 48  # how many objects follow the inputs that must be the known ones
S_HITS: Final = 56  # runs of the kernel
S_TUPLE: Final = 64  # 1: the result is wanted in a tuple of its own
S_LOOKS: Final = 72  # how many more times it is told to the region that shapes vary in another way
S_RUNTIME: Final = 80
S_GUARD: Final = 88  # the known objects
GUARDS_MAX: Final = 8
S_CHAIN: Final = 528  # address of the function that runs the kernel, 0: `entry`
S_SHAPES: Final = 152  # per input: axes, and the first dims
SHAPE_DIMS: Final = 4
SHAPE_SIZE: Final = 40
VARIES: Final = -1  # in the place of a size
INPUTS_MAX: Final = 8
S_TIMED: Final = 472  # calls that were timed, what they took in all, the latest and the longest of them, in ns
S_TOTAL: Final = 480
S_LAST: Final = 488
S_LONGEST: Final = 496
S_CLOCK: Final = 504  # address of clock_gettime
S_NOTES: Final = 512  # address of the notes' head
S_IDENT: Final = 520  # where a thread keeps its number
S_RUNNING: Final = 536  # calls that are in the kernel now
S_TIME: Final = 544  # what the clock says: seconds, nanoseconds
S_SIZE: Final = 560

WATCHED: Final = 2  # the bit of the number at S_PLAIN under which calls are timed here; any other leaves them to the region
MONOTONIC: Final = 1  # the clock of time.perf_counter

EACH: Final = 64  # calls of a site that are all timed
SKIPPED: Final = 31  # of 32 that come later, where they are short
SHORT_CODE_NS: Final = 2000  # for machine code; reading the clock twice takes it 50

N_NEVER: Final = 4611686018427387904  # a bound that no call reaches

# Notes: calls that took at least so long. The head holds the bound and the address of the page in use.
N_BOUND: Final = 0
N_PAGE: Final = 8
N_COUNT: Final = 0  # of a page
N_ROOM: Final = 8
N_FIRST: Final = 16
NOTE_SIZE: Final = 32  # start, duration, address of the site's record, number of the thread

# plan of a kernel: what `arrange` and `emit` work off (`splice.py` writes it)
A_COUNT: Final = 0  # how many values
A_VALUES: Final = 8
A_STORES: Final = 16  # how many
A_STORE: Final = 24  # where they are
A_SLOTS: Final = 32
A_SLOT_BYTES: Final = 40
A_TABLE: Final = 48
A_PLACED: Final = 56  # where the list of stencils goes
A_ROOM: Final = 64  # how many fit
A_LENGTH: Final = 72  # result: how many there are
A_CONTEXT: Final = 80  # where spills begin in the context; result: how large it must be
A_BYTES: Final = 88  # result: bytes of code
A_MISSING: Final = 96  # result: 1 when a stencil does not exist
A_WORK: Final = 104  # memory: WORK_FIXED bytes, WORK_VALUE per value, WORK_STORE per store
A_LAST_LOAD: Final = 112  # when the last input is loaded
A_FREE: Final = 120  # how many places for spills are free again
A_SIZE: Final = 128
V_KIND: Final = 0  # a value: one of the kinds below
V_FAMILY: Final = 8  # its stencils
V_TAIL: Final = 16  # the same in the last, partial step
V_OPERANDS: Final = 24  # how many
V_OPERAND: Final = 32  # three of them
V_OFFSET: Final = 56  # of its input in the context, or of its constant
VALUE_SIZE: Final = 64
LOADED: Final = 0
CONSTANT: Final = 1
HOT: Final = 2
FIXED: Final = 3
O_VALUE: Final = 0  # a store: the value
O_FAMILY: Final = 8
O_TAIL: Final = 16
O_OFFSET: Final = 24  # of the output in the context
STORE_SIZE: Final = 32
T_STENCIL: Final = 0  # a placed stencil: its row in the table, and the one for the last step
T_TAIL: Final = 8
T_CONTEXT: Final = 16  # offsets it is given
T_CONSTANT: Final = 24
PLACED_SIZE: Final = 32
C_CODE: Final = 0  # a row of the table: code, its length, holes, their number
C_LENGTH: Final = 8
C_HOLES: Final = 16
C_COUNT: Final = 24
ROW_SIZE: Final = 32
HOLE_SIZE: Final = 24  # offset, kind, addend
FRAME_START: Final = 0  # families that every table has
FRAME_LOOP: Final = 1
FRAME_AGAIN: Final = 2
FRAME_TAIL: Final = 3
FRAME_FINISH: Final = 4
MOVE: Final = 5
SPILL: Final = 6
FILL: Final = 7
WORK_FIXED: Final = 64  # slots
WORK_VALUE: Final = 72
WORK_STORE: Final = 16
FREE_SLOT: Final = -1
COPY_SLOT: Final = -2
NEVER: Final = 1073741824
HOLE_CONTEXT: Final = 0
HOLE_CONSTANT: Final = 1
HOLE_DATA: Final = 2
HOLE_NEXT: Final = 3

POINTERS: Final = 64  # context: pointers of operands
MAX_DIMS: Final = 8
EVENTS: Final = 29  # invalid, divide, overflow, underflow
HARD: Final = 13  # without underflow
ALL_EVENTS: Final = 63
BLOCK: Final = 512  # elements gathered at a time
RECYCLED_MIN: Final = 65536  # bytes of results whose memory is recycled
RECYCLED_MAX: Final = 67108864
