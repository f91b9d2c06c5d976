"""axe-core on a part of a page. Its script comes with a package of the extra `test`; nothing is fetched and nothing of it is shipped."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

SERIOUS = ("serious", "critical")


def script() -> str:
    """The text of axe.min.js."""
    found = importlib.util.find_spec("axe_playwright_python")
    if found is None or not found.submodule_search_locations:
        pytest.skip("no axe-core: pip install axe-playwright-python")
    return (Path(found.submodule_search_locations[0]) / "axe.min.js").read_text(encoding="utf-8")


def check(page: Any, selector: str) -> dict[str, Any]:
    """What axe says of the elements that `selector` names, and of nothing else on the page."""
    if page.evaluate("typeof window.axe") == "undefined":
        # JupyterLab has a module loader, which the script would register with instead of making itself known
        page.evaluate(
            "text => { const define = window.define; window.define = undefined; (0, eval)(text); window.define = define; }", script()
        )
    # JupyterLab's body is no pixel high and hides what overflows it: axe takes all text for clipped away then, and looks at no colour
    page.add_style_tag(content="html, body { height: 100% }")
    found: dict[str, Any] = page.evaluate(
        "where => axe.run({ include: [[where]] }, { resultTypes: ['violations', 'passes'], preload: false })", selector
    )
    return found


def faults(found: dict[str, Any], impacts: tuple[str, ...] = SERIOUS) -> list[str]:
    """The rules of these impacts that are violated, each with the first elements that do."""
    return [
        f"{rule['impact']} {rule['id']}, {len(rule['nodes'])} times: {rule['help']}\n"
        + "\n".join(f"    {node['html'][:160]}\n        {' '.join(node['failureSummary'].split())}" for node in rule["nodes"][:3])
        for rule in found["violations"]
        if rule["impact"] in impacts
    ]
