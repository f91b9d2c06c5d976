"""A process that nobody disturbs: `python -m tests.stress.settled CALLS BASE [KNOWN]` fills the cache, and tells what is in it as JSON.

`KNOWN`: a folder with the objects of another such process; files that differ from those are told as wrong.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bcvm_core.cache import disk
from bcvm_core.codegen import loops, store
from tests.stress import calls


def wrong(known: Path) -> list[str]:
    """What in the folder in use is unfinished for good, or damaged although this process asked for it, or not what it is elsewhere."""
    (found,) = [folder for folder in disk.folders(verify=True) if folder.current]
    asked = {f"{loop.name}.obj" for loop in list(loops._loops.values())}
    out = [f"{name}: damaged" for name in found.damaged if name in asked]
    if found.unfinished:
        out.append(f"{found.unfinished} unfinished files")
    for path in sorted(store.directory().glob("*.obj")):
        other = known / path.name
        if path.name not in found.damaged and other.exists() and path.read_bytes() != other.read_bytes():
            out.append(f"{path.name}: another object than elsewhere")
    return out


def main() -> None:
    """See above."""
    count, base, known = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    digests = calls.expected(count, base)
    loops.wait()
    print(json.dumps({"digests": digests, "wrong": wrong(Path(known)) if known else []}))


if __name__ == "__main__":
    main()
