"""The views in a page that has nothing of JupyterLab's, before a model that has what anywidget promises and no more.

That is what VS Code, Colab and others give a widget: `render({model, el})` of an ES module, and six methods of the model.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

comm = pytest.importorskip("comm", reason="the dashboard needs the extra `lab`")
pytest.importorskip("anywidget", reason="the dashboard needs the extra `lab`")

import bcvm_core as bcvm  # noqa: E402
import bcvm_widgets  # noqa: E402
from bcvm_core import session as sessions  # noqa: E402
from bcvm_widgets.assets import script, style  # noqa: E402
from tests.browser import axe  # noqa: E402
from tests.widgets.conftest import CELL, FUNCTION, Notebook  # noqa: E402
from tests.widgets.test_live import Channel  # noqa: E402

pytestmark = [pytest.mark.browser, pytest.mark.fused]
HOST = """
async ([text, state, frames]) => {
  const host = (window.host = { state, handlers: {}, sent: [], strange: [] });
  const tell = (name, ...found) => { for (const handler of host.handlers[name] ?? []) handler(...found); };
  const api = {
    get: (name) => host.state[name],
    set: (name, value) => { host.state[name] = value; },
    save_changes: () => {},
    on: (name, handler) => { host.handlers[name] = [...(host.handlers[name] ?? []), handler]; },
    off: (name, handler) => { host.handlers[name] = (host.handlers[name] ?? []).filter((other) => other !== handler); },
    send: (content) => {
      host.sent.push(content);
      if (content.command !== "frames") return;
      const bytes = new TextEncoder().encode(frames);
      setTimeout(() => tell("msg:custom", { version: content.version, frames: true }, [new DataView(bytes.buffer)]));
    },
  };
  const promised = (target, name) => {
    if (typeof name === "string" && !(name in target)) host.strange.push(name);
    return target[name];
  };
  host.update = (changed, order) => { Object.assign(host.state, changed); for (const name of order) tell(`change:${name}`); };
  const module = await import(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
  host.leave = await module.default.render({ model: new Proxy(api, { get: promised }), el: document.getElementById("output") });
}
"""
VS_CODE_DARK = {
    "editor-background": "#1f1f1f",
    "editor-foreground": "#cccccc",
    "descriptionForeground": "#9d9d9d",
    "disabledForeground": "rgba(204, 204, 204, 0.5)",
    "editorWidget-background": "#202020",
    "editorWidget-border": "#454545",
    "input-border": "#3c3c3c",
    "textLink-foreground": "#4daafc",
    "testing-iconPassed": "#73c991",
    "editorWarning-foreground": "#cca700",
    "errorForeground": "#f85149",
    "debugTokenExpression-name": "#c586c0",
    "debugTokenExpression-string": "#ce9178",
    "debugTokenExpression-number": "#b5cea8",
    "charts-purple": "#b180d7",
    "font-family": "system-ui, sans-serif",
    "font-size": "13px",
    "editor-font-family": "monospace",
}
GROUNDS = {"light": "rgb(255, 255, 255)", "dark": "rgb(31, 31, 31)"}
VIEWS = {
    "Bytecode": "td.bcvm-runs:text('3')",
    "Tier latencies": "svg [data-series], svg circle, svg path",
    "Fusion splits": "svg rect",
    "Code cache": "table tbody tr",
}
MORE = "for k in range(4):\n    x = step(x, w)\n"
MESSAGES = ("listing", "choices", "figures", "latencies", "fusion", "cache", "status")


class Host:
    """A bare page, and what went wrong in it."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.faults: list[str] = []
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("request", lambda request: self.faults.append(request.url) if not request.url.startswith("blob:") else None)

    def show(self, state: dict[str, Any], theme: str = "light", frames: str = "") -> None:
        variables = "".join(f"--vscode-{name}: {value};" for name, value in VS_CODE_DARK.items()) if theme == "dark" else ""
        page = (
            f"<!doctype html><html lang='en' style='{variables}'><title>t</title><style>{style()}</style><main id='output'></main></html>"
        )
        self.page.set_content(page)
        self.page.evaluate(HOST, [script(), state, frames])

    def strange(self) -> list[str]:
        """What was asked of the model beyond what is promised."""
        return list(self.page.evaluate("host.strange"))


@pytest.fixture
def host(browser: Any) -> Iterator[Host]:
    context = browser.new_context(viewport={"width": 1100, "height": 900}, offline=True)
    found = Host(context.new_page())
    yield found
    assert found.faults == []
    assert found.strange() == []
    context.close()


@pytest.fixture(scope="module")
def states() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """What a dashboard syncs after a cell and after another one."""
    assert bcvm.ready()
    create, before, notebook = comm.create_comm, sessions.current(), Notebook()
    comm.create_comm = functools.partial(Channel, [])
    sessions.set_current(notebook.session)
    try:
        with bcvm.override(fuse=True):
            board = bcvm_widgets.dashboard()
            board._watch.open()
            notebook.run(FUNCTION)
            notebook.run(CELL)
            first = _state(board)
            notebook.run(MORE)
            yield first, _state(board)
            board._watch.close()
    finally:
        comm.create_comm = create
        sessions.set_current(before)


def _state(board: Any) -> dict[str, Any]:
    """As a front end gets it."""
    for name, value in vars(board._sampler.sample()).items():
        board.set_trait(name, value)
    found = {name: value for name, value in board.get_state().items() if not name.startswith("_")}
    return dict(json.loads(json.dumps(found)))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_view_is_there_and_can_be_read(host: Host, states: Any, theme: str, pictures: Path) -> None:
    host.show(states[0], theme)
    root = host.page.locator(".bcvm-dashboard")
    ground = "() => getComputedStyle(document.querySelector('.bcvm-dashboard')).backgroundColor"
    assert host.page.evaluate(ground) == GROUNDS[theme]
    assert set(root.locator(".bcvm-views [role=tab]").all_text_contents()) == set(VIEWS)
    found = []
    for name, content in VIEWS.items():
        root.get_by_role("tab", name=name, exact=True).click()
        root.locator(content).locator("visible=true").first.wait_for(timeout=5_000)
        found += [f"{name}: {fault}" for fault in axe.faults(axe.check(host.page, ".bcvm-dashboard"))]
        host.page.screenshot(path=pictures / f"bare_{name.split()[0].lower()}_{theme}.png")
    assert found == []
    sent = [content["command"] for content in host.page.evaluate("host.sent")]
    assert sent[0] == "shown"
    host.page.evaluate("() => host.leave()")
    assert host.page.evaluate("host.sent.at(-1).command") == "hidden"
    assert host.page.evaluate("Object.values(host.handlers).flat().length") == 0


def test_messages_may_come_in_any_order(host: Host, states: Any) -> None:
    first, second = states
    assert first["listing"]["generation"] != second["listing"]["generation"]
    lengths = {unit["key"]: len(unit["instructions"]) for unit in second["listing"]["units"]}
    for order in [*itertools.permutations(MESSAGES[:3]), MESSAGES[::-1]]:
        host.show(first)
        host.page.evaluate("([changed, order]) => host.update(changed, order)", [second, [*order, *MESSAGES[3:]]])
        key = host.page.locator(".bcvm-tabs [aria-selected=true]").get_attribute("data-key")
        assert host.page.locator(".bcvm-instructions tbody tr").count() == lengths[str(key)]
        assert {"4", "8"} & set(host.page.locator("td.bcvm-runs").all_text_contents())


def test_docked_it_says_that_there_is_no_room_beside_the_notebook(host: Host, states: Any) -> None:
    host.show({**states[0], "docked": True})
    host.page.get_by_text("There is no room beside the notebook in this front end").wait_for(timeout=5_000)
    host.page.locator(".bcvm-dashboard").wait_for(timeout=5_000)


def test_a_recorded_run_is_replayed(host: Host, states: Any) -> None:
    from bcvm_widgets import runs

    run = runs.of_sample(bcvm_widgets.report(times=True).sample)
    host.show({"last": {"at_ms": 0, **run.state()}}, frames=run.frames_json())
    host.page.locator(".bcvm-dashboard").wait_for(timeout=5_000)
    assert host.page.get_by_role("button", name="Stop").count() == 0
    assert host.page.locator("td.bcvm-runs:text('4')").count()
