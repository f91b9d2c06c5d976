"""Threads that share the parts of one call, in the language of `native.py`: no lock of the interpreter, no system call while they are busy.

The *crew* is a block of memory that is never freed. Whoever calls copies what to run into it and publishes one word, the *claim*: the
number of the call above, how many parts are left below. Threads take parts by counting it down, so a late one takes none. Those without
work look at the claim for a while before they sleep, for the next large call often follows at once.
"""

from __future__ import annotations

from typing import Final

from .native import (
    atomic_add,
    atomic_load,
    atomic_store,
    atomic_swap,
    call,
    get_status,
    load64,
    pause,
    set_status,
    stack,
    store32,
    store64,
    thread_pointer,
)

# the call: a block of words that the caller makes and the crew copies
CALL_FUNCTION: Final = 0
CALL_TABLE: Final = 8  # rows of six arguments, what the function returned, nothing; 0: arguments are BASE + number * DELTA
CALL_START: Final = 16  # the number of the first part
CALL_COUNT: Final = 24
CALL_MOVED: Final = 32  # how many words of a part are moved by the thread's share of scratch memory
CALL_FIRST: Final = 40  # the offset of the first of them
CALL_IN_JOB: Final = 48  # whether they are in the memory that the first argument points at, or arguments
CALL_STEP: Final = 56  # bytes of scratch memory per thread
CALL_LIMIT: Final = 64  # without a table the fourth argument is at most this
CALL_BASE: Final = 72
CALL_DELTA: Final = 120
CALL_SIZE: Final = 168

# the crew; each of the words that several threads write has a cache line of its own
W_CLAIM: Final = 0
W_DONE: Final = 64  # parts that are done
W_EPOCH: Final = 128  # counts calls; sleepers wait for a change
W_SLEEPERS: Final = 192
W_WAITING: Final = 256  # whether the caller sleeps until all is done
W_HELD: Final = 320  # whether somebody calls
W_CALL: Final = 384  # what the caller alone writes: the call,
W_SYSCALL: Final = 552  # addresses of the C library's functions,
W_CLOCK: Final = 560
W_PATIENCE: Final = 568  # nanoseconds for which a thread without work looks for some,
W_MEMBERS: Final = 576  # how many threads there are, with the caller,
W_QUIET: Final = 584  # until when short calls had better stay alone, because others were late,
W_QUIET_NS: Final = 592  # for how long the next time,
W_QUIET_MIN: Final = 600
W_QUIET_MAX: Final = 608
W_LATE: Final = 616  # and from how many nanoseconds on, if they are more than a quarter of the call
W_MEMBER: Final = 640  # per thread: which one is running a part,
MEMBER_RAISED: Final = 8  # and the floating-point flags that its parts raised, for the caller, whose own they become
MEMBER_SIZE: Final = 64
LEFT: Final = 4294967295  # the bits of the claim that count parts
FUTEX: Final = 202  # the number of the system call
FUTEX_WAIT: Final = 128  # within this process
FUTEX_WAKE: Final = 129
LOOKS: Final = 64  # between two looks at the clock
SECONDS: Final = 1000000000


def crew_now(crew: int) -> int:
    """Nanoseconds."""
    at = stack(16)
    call(load64(crew + W_CLOCK), 1, at)
    return load64(at) * SECONDS + load64(at + 8)


def crew_part(desc: int, number: int, member: int) -> int:
    """Run one part of a call."""
    function = load64(desc + CALL_FUNCTION)
    row = stack(64)
    if load64(desc + CALL_TABLE) != 0:
        row = load64(desc + CALL_TABLE) + 64 * number
    else:
        k = 0
        while k < 48:
            store64(row + k, load64(desc + CALL_BASE + k) + number * load64(desc + CALL_DELTA + k))
            k = k + 8
        if load64(row + 24) > load64(desc + CALL_LIMIT):
            store64(row + 24, load64(desc + CALL_LIMIT))
    place = row + load64(desc + CALL_FIRST)
    if load64(desc + CALL_IN_JOB) != 0:
        place = load64(row) + load64(desc + CALL_FIRST)
    moved = load64(desc + CALL_MOVED)
    while moved > 0:
        store64(place, load64(place) + member * load64(desc + CALL_STEP))
        place = place + 8
        moved = moved - 1
    returned = call(function, load64(row), load64(row + 8), load64(row + 16), load64(row + 24), load64(row + 32), load64(row + 40))
    store64(row + 48, returned)
    return 0


def crew_member(crew: int, number: int, member: int) -> int:
    """Run one part of the call that all work on, as one of the threads."""
    own = crew + W_MEMBER + MEMBER_SIZE * member
    store64(own, thread_pointer())
    if member == 0:
        crew_part(crew + W_CALL, number, member)
    else:
        scratch = stack(8)
        set_status(scratch, get_status(scratch) & -64)
        crew_part(crew + W_CALL, number, member)
        store64(own + MEMBER_RAISED, load64(own + MEMBER_RAISED) | (get_status(scratch) & 63))
    store64(own, 0)
    return 0


def crew_forget(crew: int) -> int:
    """Forget which floating-point flags parts have raised: which they were."""
    raised = 0
    k = load64(crew + W_MEMBERS) - 1
    while k > 0:
        own = crew + W_MEMBER + MEMBER_SIZE * k
        raised = raised | load64(own + MEMBER_RAISED)
        store64(own + MEMBER_RAISED, 0)
        k = k - 1
    return raised


def crew_take(crew: int, member: int) -> int:
    """Run parts until none is left: how many."""
    taken = 0
    claim = atomic_load(crew + W_CLAIM)
    while (claim & LEFT) != 0:
        if atomic_swap(crew + W_CLAIM, claim, claim - 1) != 0:
            count = load64(crew + W_CALL + CALL_COUNT)
            crew_member(crew, load64(crew + W_CALL + CALL_START) + count - (claim & LEFT), member)
            taken = taken + 1
            if atomic_add(crew + W_DONE, 1) + 1 == count and atomic_load(crew + W_WAITING) != 0:
                call(load64(crew + W_SYSCALL), FUTEX, crew + W_DONE, FUTEX_WAKE, 1, 0, 0)
        claim = atomic_load(crew + W_CLAIM)
    return taken


def crew_serve(crew: int, member: int) -> int:
    """What a thread does all its life."""
    while 1 == 1:
        crew_take(crew, member)
        until = crew_now(crew) + load64(crew + W_PATIENCE)
        looks = 0
        while looks >= 0 and (atomic_load(crew + W_CLAIM) & LEFT) == 0:
            pause()
            looks = looks + 1
            if (looks & (LOOKS - 1)) == 0 and crew_now(crew) > until:
                looks = -1
        if looks < 0:
            crew_sleep(crew)
    return 0


def crew_sleep(crew: int) -> int:
    """Wait for the next call."""
    epoch = atomic_load(crew + W_EPOCH)
    atomic_add(crew + W_SLEEPERS, 1)
    if (atomic_load(crew + W_CLAIM) & LEFT) == 0:
        call(load64(crew + W_SYSCALL), FUTEX, crew + W_EPOCH, FUTEX_WAIT, epoch & LEFT, 0, 0)
    atomic_add(crew + W_SLEEPERS, -1)
    return 0


def crew_alone(desc: int) -> int:
    """Run the parts of a call by this thread."""
    k = load64(desc + CALL_START)
    end = k + load64(desc + CALL_COUNT)
    while k < end:
        crew_part(desc, k, 0)
        k = k + 1
    return 0


def crew_run(crew: int, desc: int) -> int:
    """Run the parts of a call by all threads, or by this one where another caller has them."""
    count = load64(desc + CALL_COUNT)
    if count < 2 or atomic_swap(crew + W_HELD, 0, 1) == 0:
        return crew_alone(desc)
    began = crew_now(crew)
    k = 0
    while k < CALL_SIZE:
        store64(crew + W_CALL + k, load64(desc + k))
        k = k + 8
    atomic_store(crew + W_DONE, 0)
    epoch = atomic_load(crew + W_EPOCH) + 1
    atomic_store(crew + W_CLAIM, (epoch << 32) | count)
    atomic_store(crew + W_EPOCH, epoch)
    if atomic_load(crew + W_SLEEPERS) > 0:
        call(load64(crew + W_SYSCALL), FUTEX, crew + W_EPOCH, FUTEX_WAKE, count - 1, 0, 0)
    crew_take(crew, 0)
    alone = crew_now(crew)
    crew_await(crew, count, alone + load64(crew + W_PATIENCE))
    crew_judge(crew, began, alone, crew_now(crew))
    scratch = stack(8)
    set_status(scratch, get_status(scratch) | crew_forget(crew))
    atomic_store(crew + W_HELD, 0)
    return 0


def crew_judge(crew: int, began: int, alone: int, ended: int) -> int:
    """Let short calls stay alone for a while after others were late, for longer each time."""
    late = ended - alone
    quiet = load64(crew + W_QUIET_NS)
    if late > load64(crew + W_LATE) and 4 * late > ended - began:
        store64(crew + W_QUIET, ended + quiet)
        if 2 * quiet <= load64(crew + W_QUIET_MAX):
            store64(crew + W_QUIET_NS, 2 * quiet)
    else:
        quiet = quiet - (quiet >> 4)
        if quiet >= load64(crew + W_QUIET_MIN):
            store64(crew + W_QUIET_NS, quiet)
    return 0


def crew_await(crew: int, count: int, until: int) -> int:
    """Return when all parts are done: look, then sleep, so that a thread that needs this core gets it."""
    looks = 0
    done = atomic_load(crew + W_DONE)
    while done != count:
        pause()
        looks = looks + 1
        if (looks & (LOOKS - 1)) == 0 and crew_now(crew) > until:
            atomic_store(crew + W_WAITING, 1)
            done = atomic_load(crew + W_DONE)
            if done != count:
                call(load64(crew + W_SYSCALL), FUTEX, crew + W_DONE, FUTEX_WAIT, done, 0, 0)
            atomic_store(crew + W_WAITING, 0)
        done = atomic_load(crew + W_DONE)
    return 0


# -- the thread pool that oneDNN asks for: an object of C++ whose second word is the crew ------------

POOL_CREW: Final = 8
POOL_COUNT: Final = 16  # into how many parts calls are cut
POOL_PART: Final = 24  # address of `pool_part`
STD_FUNCTION_INVOKER: Final = 24  # in libstdc++'s std::function: 16 bytes of data, the manager, the invoker


def pool_count(pool: int) -> int:
    """Into how many parts calls are cut."""
    return load64(pool + POOL_COUNT)


def pool_nothing(_pool: int) -> int:
    """Takes what needs no answer."""
    return 0


def pool_inside(pool: int) -> int:
    """Whether this thread is running a part."""
    crew = load64(pool + POOL_CREW)
    own = thread_pointer()
    k = load64(crew + W_MEMBERS) - 1
    while k >= 0:
        if load64(crew + W_MEMBER + MEMBER_SIZE * k) == own:
            return 1
        k = k - 1
    return 0


def pool_part(function: int, number: int, count: int) -> int:
    """function(number, count) of C++, which takes references."""
    at = stack(16)
    store32(at, number)
    store32(at + 8, count)
    call(load64(function + STD_FUNCTION_INVOKER), function, at, at + 8)
    return 0


def pool_for(pool: int, count: int, function: int) -> int:
    """function(k, count) for every k below count, one after the other where this is a part already."""
    desc = stack(CALL_SIZE)
    k = 0
    while k < CALL_SIZE:
        store64(desc + k, 0)
        k = k + 8
    count = count & LEFT
    store64(desc + CALL_FUNCTION, load64(pool + POOL_PART))
    store64(desc + CALL_COUNT, count)
    store64(desc + CALL_BASE, function)
    store64(desc + CALL_DELTA + 8, 1)
    store64(desc + CALL_BASE + 16, count)
    if pool_inside(pool) != 0:
        return crew_alone(desc)
    return crew_run(load64(pool + POOL_CREW), desc)
