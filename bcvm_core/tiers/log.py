"""The logger `bcvm`, and its set-up from MindSpore's environment variables."""

from __future__ import annotations

import logging

from .. import config

logger = logging.getLogger("bcvm")

_NUMBERS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")  # MS_LOG_LEVEL=0 means DEBUG


def level_of(text: str) -> int:
    """A level of `logging` from MS_LOG_LEVEL's spellings: a name, or MindSpore's digit; WARNING for anything else."""
    text = text.strip().upper()
    if text.isdigit() and int(text) < len(_NUMBERS):
        text = _NUMBERS[int(text)]
    level = logging.getLevelNamesMapping().get(text)
    return logging.WARNING if level is None else level


def configure() -> None:
    """Print what the knobs ask for to standard error; leaves handlers that the application set alone."""
    level = level_of(config.current.log_level)
    if level >= logging.WARNING:
        return
    logger.setLevel(level)
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(message)s"))
        logger.addHandler(handler)


configure()
