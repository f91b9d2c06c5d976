"""Build the notebooks: ``python notebooks/build.py [NAME ...]`` reads source/NAME.md and writes NAME.ipynb, executed.

A source is Markdown. Each block fenced with ```python is a code cell, the text between two of them
a Markdown cell; words after ``python`` become the cell's tags, of which `hide-input` also collapses
the cell. Nothing that differs from run to
run or machine to machine is kept, so that a notebook changes only when its source or its
results do.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parent
KERNEL = {"name": "bcvm", "display_name": "BCVM (tensor bytecode)", "language": "python"}
_BLOCK = re.compile(r"^```python *(?P<tags>[^\n]*)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)


def read_source(text: str) -> nbformat.NotebookNode:
    """The notebook that a source stands for, not executed."""
    notebook = nbformat.v4.new_notebook(metadata={"kernelspec": dict(KERNEL), "language_info": {"name": "python"}})
    position = 0
    for block in _BLOCK.finditer(text):
        _add(notebook, "markdown", text[position : block.start()])
        _add(notebook, "code", block["code"], block["tags"].split())
        position = block.end()
    _add(notebook, "markdown", text[position:])
    return notebook


def _add(notebook: nbformat.NotebookNode, kind: str, text: str, tags: list[str] | None = None) -> None:
    text = text.strip("\n")
    if not text:
        return
    make = nbformat.v4.new_code_cell if kind == "code" else nbformat.v4.new_markdown_cell
    cell = make(text, id=f"cell-{len(notebook.cells) + 1:02}")
    if tags:
        cell.metadata["tags"] = tags
    if tags and "hide-input" in tags:
        cell.metadata["jupyter"] = {"source_hidden": True}
    notebook.cells.append(cell)


def execute(notebook: nbformat.NotebookNode) -> None:
    """Run every cell on the kernel `bcvm`. Raises CellExecutionError at the first error that isn't meant."""
    client = NotebookClient(
        notebook,
        timeout=120,
        kernel_name="bcvm",
        record_timing=False,
        coalesce_streams=True,  # how a stream was cut into messages is chance
        resources={"metadata": {"path": str(FOLDER)}},
    )
    client.execute()
    notebook.metadata = nbformat.from_dict({"kernelspec": dict(KERNEL), "language_info": {"name": "python"}})
    for output in (output for cell in notebook.cells for output in cell.get("outputs", ())):
        if output.output_type == "error":
            output.traceback = [re.sub(r"ipykernel_\d+", "ipykernel", line) for line in output.traceback]
        elif "data" in output:  # a view of a widget that is gone; its HTML and text stay
            output.data.pop("application/vnd.jupyter.widget-view+json", None)


def build(name: str) -> Path:
    """Read, execute and write one notebook; returns its path."""
    notebook = read_source((FOLDER / "source" / f"{name}.md").read_text(encoding="utf-8"))
    execute(notebook)
    path = FOLDER / f"{name}.ipynb"
    nbformat.validate(notebook)
    path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
    return path


def main(argv: list[str] | None = None) -> int:
    """Build the named notebooks, or all."""
    parser = argparse.ArgumentParser(description="Build the notebooks from their sources; needs the kernel bcvm.")
    parser.add_argument("name", nargs="*", help="name of a notebook without its ending (default: all)")
    names = parser.parse_args(argv).name or sorted(p.stem for p in (FOLDER / "source").glob("*.md"))
    for name in names:
        print(build(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
