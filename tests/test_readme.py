"""The two READMEs say the same, and what the English one counts is on the pages that it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

NUMBER = re.compile(r"\d+(?:\.\d+)?")


@pytest.fixture(scope="module")
def english(repository: Path) -> str:
    return (repository / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def chinese(repository: Path) -> str:
    return (repository / "README.zh.md").read_text(encoding="utf-8")


def _blocks(text: str) -> list[str]:
    return re.findall(r"^```.*?^```$", text, re.DOTALL | re.MULTILINE)


def _without_blocks(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def _tables(text: str) -> list[list[list[str]]]:
    """Tables, as rows of cells, without their heads."""
    found = re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    return [[[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()][2:] for table in found]


def _numbers(tables: list[list[list[str]]]) -> list[list[list[list[str]]]]:
    return [[[NUMBER.findall(cell) for cell in row] for row in table] for table in tables]


def test_code_blocks_are_the_same(english: str, chinese: str) -> None:
    assert len(_blocks(english)) >= 3
    assert _blocks(english) == _blocks(chinese)


def test_tables_have_the_same_rows_and_numbers(english: str, chinese: str) -> None:
    found = _numbers(_tables(english))
    assert [len(table) for table in found] == [len(table) for table in _tables(chinese)]
    assert len(found) == 2 and any(any(row) for row in found[0])
    assert found == _numbers(_tables(chinese))


def test_inline_code_links_and_pictures_are_the_same(english: str, chinese: str) -> None:
    def code(text: str) -> set[str]:
        return set(re.findall(r"`([^`\n]+)`", _without_blocks(text)))

    def targets(text: str) -> set[str]:
        return set(re.findall(r"\]\(([^)]+)\)", text))

    assert code(chinese) == code(english) | {"make lab", "make test", "./.venv"}  # it puts what the first block says into words
    assert targets(english) - {"README.zh.md"} == targets(chinese) - {"README.md"}
    assert "README.zh.md" in targets(english) and "README.md" in targets(chinese)


def test_headings_stand_in_the_same_order(english: str, chinese: str) -> None:
    levels = [re.findall(r"^(#+) ", _without_blocks(text), re.MULTILINE) for text in (english, chinese)]
    assert levels[0] == levels[1]


def test_the_chinese_one_is_chinese(chinese: str) -> None:
    """Every paragraph holds some, and no half-width comma or full stop follows a Chinese character."""
    text = re.sub(r"<!--.*?-->", "", _without_blocks(chinese))
    bare = [part for part in re.split(r"\n\n+", text) if part.strip() and not re.search(r"[\u4e00-\u9fff]", part)]
    assert [part for part in bare if part.strip() != "# BCVM"] == []
    assert re.findall(r"[\u4e00-\u9fff][,.;:?!]", text) == []


def test_measured_figures_are_those_of_the_page(english: str, repository: Path) -> None:
    page = set(NUMBER.findall((repository / "docs" / "measurements.md").read_text(encoding="utf-8")))
    measured = _tables(english)[0]
    figures = {number for row in measured for cell in row[2:] for number in NUMBER.findall(cell)}
    assert figures <= page, f"not in docs/measurements.md: {sorted(figures - page)}"


def test_versions_are_those_of_the_page(english: str, repository: Path) -> None:
    page = (repository / "docs" / "compatibility.md").read_text(encoding="utf-8")
    versions = {number for row in _tables(english)[1] for number in re.findall(r"\d+\.\d+", row[1])}
    assert versions and [v for v in versions if not re.search(rf"\b{re.escape(v)}(?:\.\d+)?\b", page)] == []
