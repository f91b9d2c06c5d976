"""A run as one HTML file that opens anywhere, offline: the views with a time slider, and below them tables that need no script.

Nothing is loaded, and the page's own policy forbids it. The same run gives the same characters.
"""

from __future__ import annotations

from .assets import script, style
from .reports import Report
from .runs import Run

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE = """
:root { color-scheme: light dark; }
body { margin: 24px auto; max-width: 1200px; padding: 0 16px; font: 14px/1.45 system-ui, sans-serif;
  color: var(--jp-ui-font-color1, #212121); background: var(--jp-layout-color1, #fff); }
h1 { font-size: 20px; } h2 { font-size: 16px; margin-top: 32px; }
.tables { overflow-x: auto; } .tables table { border-collapse: collapse; margin: 12px 0; font-size: 13px; }
.tables td, .tables th { padding: 1px 8px; } .tables svg { max-width: 900px; }
@media (prefers-color-scheme: dark) { :root {
  --jp-layout-color1: #111; --jp-layout-color2: #424242; --jp-border-color1: #616161; --jp-border-color2: #424242;
  --jp-ui-font-color1: #e8e8e8; --jp-ui-font-color2: #b8b8b8; --jp-ui-font-color3: #8a8a8a; --jp-brand-color1: #64b5f6;
  --jp-success-color1: #81c784; --jp-warn-color1: #ffb74d; --jp-error-color1: #e57373; --jp-mirror-editor-keyword-color: #66bb6a;
  --jp-mirror-editor-string-color: #ff7070; --jp-mirror-editor-number-color: #66bb6a; --jp-mirror-editor-comment-color: #7fb0b0; } }
"""
_START = 'replayIn(JSON.parse(document.getElementById("run").textContent), document.getElementById("views"));'


def page(run: Run) -> str:
    """The HTML file."""
    report = Report(run.sample(), times=True)
    frames = run.frames_json().replace("<", "\\u003c")
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            f"<title>A run of BCVM</title><style>{_STYLE}{style()}</style></head><body><main>",
            '<h1>A run of BCVM</h1><div id="views"><noscript>The views need scripts; the tables below do not.</noscript></div>',
            f'<h2>As it stood at the end</h2><div class="tables">{report.html()}</div></main>',
            f'<script type="application/json" id="run">{frames}</script>',
            f'<script type="module">{script()}\n{_START}</script></body></html>',
            "",
        ]
    )
