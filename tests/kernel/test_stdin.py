"""input() and getpass() through the front end (case c64)."""

from __future__ import annotations

import time
from typing import Any


def test_c64_an_answer_arrives(kernel: Any) -> None:
    message_id = kernel.send("v = input('n? ')", allow_stdin=True)
    request = kernel.kc.get_stdin_msg(timeout=10)
    assert request["content"] == {"prompt": "n? ", "password": False}
    kernel.kc.input("12")
    assert kernel.wait(message_id).status == "ok"
    assert kernel.run("int(v) * 2").text == "24"


def test_c64_a_waiting_input_is_interrupted_and_a_late_answer_thrown_away(kernel: Any) -> None:
    message_id = kernel.send("input('late? ')", allow_stdin=True)
    kernel.kc.get_stdin_msg(timeout=10)
    asked = time.monotonic()
    kernel.manager.interrupt_kernel()
    out = kernel.wait(message_id)
    assert (out.status, out.ename) == ("error", "KeyboardInterrupt")
    assert time.monotonic() - asked < 2.0
    assert kernel.run("3 + 4").text == "7"
    kernel.kc.input("too late")
    time.sleep(0.2)
    message_id = kernel.send("w = input('again? ')", allow_stdin=True)
    kernel.kc.get_stdin_msg(timeout=10)
    kernel.kc.input("in time")
    assert kernel.wait(message_id).status == "ok"
    assert kernel.run("w").text == "'in time'"


def test_c64_without_stdin_both_fail_at_once(kernel: Any) -> None:
    for code in ("input()", "import getpass; getpass.getpass()"):
        assert kernel.run(code).ename == "StdinNotImplementedError"


def test_c64_a_password_is_in_no_output(kernel: Any) -> None:
    message_id = kernel.send("import getpass; p = getpass.getpass('key: ')", allow_stdin=True)
    assert kernel.kc.get_stdin_msg(timeout=10)["content"]["password"] is True
    kernel.kc.input("s3cret")
    assert "s3cret" not in str(kernel.wait(message_id).messages)
    assert kernel.run("p == 's3cret'").text == "True"
