"""The code cache on disk: private, whole or not there, whatever happens to the processes that write it."""

from __future__ import annotations

import os
import random
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import bcvm_core as bcvm
from bcvm_core import cli, config
from bcvm_core.cache import disk
from bcvm_core.codegen import store

pytestmark = pytest.mark.skipif(os.name != "posix", reason="owners and modes of files")
BODY = bytes(range(256)) * 64


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A cache of its own for this test."""
    store._tidy.cache_clear()
    with config.override(cache_dir=str(tmp_path / "new" / "cache")):
        yield store.directory()  # type: ignore[misc]
    store._tidy.cache_clear()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_folders_are_the_users_alone_even_those_above(folder: Path) -> None:
    before = os.umask(0o002)
    try:
        assert store.write("one", BODY)
    finally:
        os.umask(before)
    for path in (folder, folder.parent, folder.parent.parent, folder.parent.parent.parent):
        assert mode(path) == 0o700, path
    assert mode(folder / "one.obj") == 0o600
    assert store.read("one") == BODY


def test_a_folder_that_others_may_write_is_a_miss_until_it_is_ours_again(folder: Path) -> None:
    store.write("one", BODY)
    folder.chmod(0o777)
    before = store.counts[store.FOREIGN]
    assert store.read("one") is None
    assert store.counts[store.FOREIGN] == before + 1
    assert store.write("one", BODY)
    assert mode(folder) == 0o700 and store.read("one") == BODY


def test_a_file_that_others_may_write_is_a_miss_and_is_replaced(folder: Path) -> None:
    store.write("one", BODY)
    (folder / "one.obj").chmod(0o666)
    assert store.read("one") is None
    store.write("one", BODY)
    assert store.read("one") == BODY


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_somebody_else_is_a_miss(folder: Path) -> None:
    store.write("one", BODY)
    os.chown(folder / "one.obj", 12345, 12345)
    assert store.read("one") is None


@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "another's", "directory", "link to nothing"])
def test_damage_is_a_miss_and_is_replaced_where_it_can_be(folder: Path, damage: str) -> None:
    store.write("one", BODY)
    store.write("two", BODY[::-1])
    path = folder / "one.obj"
    data = bytearray(path.read_bytes())
    path.unlink()
    if damage == "directory":
        path.mkdir()
    elif damage == "link to nothing":
        path.symlink_to(folder / "nothing")
    else:
        data[len(data) // 2] ^= 1
        other = (folder / "two.obj").read_bytes()  # whole, but not what this name stands for
        path.write_bytes({"cut": data[: len(data) // 2], "empty": b"", "flipped": bytes(data), "another's": other}[damage])
        path.chmod(0o600)
    assert store.read("one") is None
    assert store.write("one", BODY) is (damage != "directory")
    assert store.read("one") == (None if damage == "directory" else BODY)


def test_a_full_disk_is_no_error_and_leaves_nothing(folder: Path) -> None:
    code = (
        "import resource; from bcvm_core.codegen import store\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        "print(store.write('one', bytes(100000)), store.write('two', bytes(100)), store.read('one'))"
    )
    env = os.environ | {"BCVM_CACHE_DIR": str(folder.parent.parent)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "None"]
    assert [path.name for path in folder.iterdir()] == ["two.obj"]


def test_what_the_code_depends_on_names_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    known = store.key()
    for name, value in (("__version__", "99.0"), ("cpu_level", lambda: "x86-64-v9")):
        with monkeypatch.context() as patch:
            patch.setattr(store, name, value)
            assert store.key.__wrapped__() != known  # type: ignore[attr-defined]
    assert store.key.__wrapped__() == known  # type: ignore[attr-defined]


@pytest.mark.parametrize("use", [lambda: store.write("one", BODY), lambda: store.read("one")], ids=["write", "read"])
def test_leftovers_and_folders_nobody_uses_go(folder: Path, use: Callable[[], object]) -> None:
    folder.mkdir(parents=True)
    old, fresh = folder / "a.1.tmp", folder / "a.2.tmp"
    forgotten, used = folder.parent / "old-key", folder.parent / "other-key"
    for path in (old, fresh):
        path.write_bytes(b"x")
    for path in (forgotten, used):
        path.mkdir()
        (path / "x.obj").write_bytes(b"x")
    os.utime(old, (0, 0))
    os.utime(forgotten, (0, 0))
    use()
    assert not old.exists() and fresh.exists()
    assert not forgotten.exists() and used.exists()


WRITER = """
import hashlib, random, sys
from bcvm_core.codegen import store
seed = int(sys.argv[1]); choose = random.Random(seed)
def body(name): return hashlib.sha256(name.encode()).digest() * 4000
print("ready", flush=True)
for step in range(1 << 30):
    name = f"k{choose.randrange(8)}"
    found = store.read(name)
    if found is not None and found != body(name):
        print("WRONG", name, flush=True); sys.exit(1)
    if choose.random() < 0.5: store.write(name, body(name))
"""


def test_writers_that_are_killed_never_leave_a_wrong_file(folder: Path) -> None:
    env = os.environ | {"BCVM_CACHE_DIR": str(folder.parent.parent)}
    choose = random.Random(7)

    def start(number: int) -> subprocess.Popen[str]:
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(number)], env=env, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        return process

    def ended(process: subprocess.Popen[str]) -> int:
        with process:
            return process.wait()

    writers = [start(number) for number in range(3)]
    for number in range(4):
        time.sleep(choose.random() * 0.2)
        writers[0].send_signal(signal.SIGKILL)
        assert ended(writers.pop(0)) == -signal.SIGKILL, "it had seen a wrong file"
        writers.append(start(10 + number))
    time.sleep(0.3)
    for writer in writers:
        assert writer.poll() is None, "it had seen a wrong file"
        writer.kill()
        ended(writer)
    (found,) = disk.folders(verify=True)
    assert found.files == 8 and found.damaged == ()


def test_forked_children_share_it(folder: Path) -> None:
    children = []
    for number in range(4):
        child = os.fork()
        if not child:
            fine = all(store.write(f"k{k}", BODY) and store.read(f"k{k}") == BODY for k in range(20 + number))
            os._exit(0 if fine else 1)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 4
    (found,) = disk.folders(verify=True)
    assert (found.files, found.damaged, found.unfinished) == (23, (), 0)


def test_the_command_shows_checks_and_clears(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store.write("good", BODY)
    store.write("bad", BODY)
    other = folder.parent / "x86-64-v1-0123456789abcdef"
    other.mkdir()
    (other / "x.obj").write_bytes(BODY)
    assert cli.main(["cache"]) == 0
    text = capsys.readouterr().out
    assert f"{store.key()}: 2 files" in text and "in use" in text and "of another version or processor" in text
    (folder / "bad.obj").write_bytes(b"BCVMOBJ2 nonsense")
    assert cli.main(["cache"]) == 1
    assert "damaged: bad.obj" in capsys.readouterr().out
    assert cli.main(["cache", "--clear"]) == 0
    assert disk.folders() == [] and not folder.exists()


def test_the_view_has_memory_arena_and_disk(folder: Path) -> None:
    store.write("one", BODY)
    store.read("one")
    info = bcvm.cache_info()
    found = info.as_dict()
    assert found["disk"]["folders"][0]["files"] == 1 and found["disk"]["requests"][store.HIT] >= 1
    assert found["memory"]["limits"] == {"size": 200, "ttl_s": 300.0, "code_bytes": 32 << 20}
    for text in (info.table(), info._repr_html_()):
        assert "of 200 fused kernels" in text and store.key() in text
