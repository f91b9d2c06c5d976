"""How each kind of operand is written in the text form: one row per `opcodes.Kind`.

Assembler and disassembler are both derived from these rows, so that what one prints the other reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import AssembleError, BcvmError, EncodeError
from . import literals
from .hints import ShapeHint
from .opcodes import Kind, OpcodeRow
from .program import Arg

_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*\Z")
_DEVICE = re.compile(r"[a-z]+:[0-9]{1,9}\Z")
_INDEX = {prefix: re.compile(prefix + r"([0-9]{1,9})\Z") for prefix in ("r", "k", "h")}
_POLICY = re.compile(r"policy_([0-9]{1,9})\Z")
_SIGNATURE = re.compile(r"0x([0-9a-fA-F]{1,4})\Z")
_NAMED = re.compile(r'([^\W\d]\w*|"(?:[^"\\]|\\.)*")\s*=\s*(.*)\Z', re.DOTALL)
NOTHING = "_"
_BRACKETS = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Names:
    """What an operand's text may refer to: label <-> pc, signature id in the text <-> id of this process."""

    labels: dict[Any, Any]
    signatures: dict[int, int]


def split(text: str, separator: str = ",") -> list[str]:
    """Split at `separator` outside quotes and brackets; an empty text has no parts. Raises AssembleError."""
    parts, start, closers, quoted, at = [], 0, [], False, 0
    while at < len(text):
        char = text[at]
        if quoted:
            at += char == "\\"
            quoted = char != '"'
        elif char == '"':
            quoted = True
        elif char in _BRACKETS:
            closers.append(_BRACKETS[char])
        elif char in ")]}":
            if not closers or closers.pop() != char:
                raise AssembleError(f"{char!r} closes nothing", fix="balance the brackets of this line")
        elif char == separator and not closers:
            parts.append(text[start:at].strip())
            start = at + 1
        at += 1
    if quoted or closers:
        raise AssembleError("a quote or bracket is left open", fix="close it on the same line")
    last = text[start:].strip()
    return [*parts, last] if parts or last else []


def show_name(name: str) -> str:
    """An identifier (dots allowed) as it is, anything else as a JSON string."""
    if type(name) is not str:
        raise EncodeError(f"{name!r} is no name")
    return name if _NAME.match(name) else quoted(name)


def quoted(text: str) -> str:
    """A JSON string; parentheses are escaped, so that lists in parentheses can be found by pattern."""
    return json.dumps(text).replace("(", "\\u0028").replace(")", "\\u0029")


def parse_name(text: str) -> str:
    if text.startswith('"'):
        try:
            return str(json.loads(text))
        except ValueError:
            raise AssembleError(f"{text} is no JSON string") from None
    if _NAME.match(text):
        return text
    raise AssembleError(f"{text!r} is no name", fix="names are identifiers; put other names in double quotes")


def parse_names(text: str) -> tuple[str, ...]:
    return tuple(parse_name(part) for part in split(text))


def show_names(names: tuple[str, ...]) -> str:
    return ", ".join(map(show_name, names))


def _show_index(prefix: str) -> Callable[[Any, Names], str]:
    def show(value: Any, names: Names) -> str:
        if type(value) is not int or not 0 <= value < 10**9:
            raise EncodeError(f"{prefix}{value!r} is no operand")
        return f"{prefix}{value}"

    return show


def _parse_index(prefix: str) -> Callable[[str, Names], Any]:
    def parse(text: str, names: Names) -> Any:
        match = _INDEX[prefix].match(text)
        if match is None:
            raise AssembleError(f"{text!r} where a {_WORDS[prefix]} belongs", fix=f"write {prefix}0, {prefix}1, ...")
        return int(match[1])

    return parse


_WORDS = {"r": "register", "k": "constant", "h": "host block"}


def _optional(row: TextForm) -> TextForm:
    return TextForm(
        lambda value, names: NOTHING if value is None else row.show(value, names),
        lambda text, names: None if text == NOTHING else row.parse(text, names),
    )


def _list(row: TextForm) -> TextForm:
    return TextForm(
        lambda values, names: ", ".join(row.show(value, names) for value in values),
        lambda text, names: tuple(row.parse(part, names) for part in split(text)),
        many=True,
    )


@dataclass(frozen=True, slots=True)
class TextForm:
    """`show(value, names)` and `parse(text, names)`; `many` operands hold a list."""

    show: Callable[[Any, Names], str]
    parse: Callable[[str, Names], Any]
    many: bool = False


def _show_arg(arg: Any, names: Names) -> str:
    if not isinstance(arg, Arg):
        raise EncodeError(f"{arg!r} is no argument")
    value = _show_index("k" if arg.is_const else "r")(arg.index, names)
    if arg.name is None:
        return value
    return f"{quoted(arg.name) if '.' in arg.name else show_name(arg.name)}={value}"


def _parse_arg(text: str, names: Names) -> Arg:
    named = _NAMED.match(text)
    name = parse_name(named[1]) if named else None
    value = named[2].strip() if named else text
    is_const = value.startswith("k")
    return Arg(is_const, _parse_index("k" if is_const else "r")(value, names), name)


def _show_hint(hint: Any, names: Names) -> str:
    if not isinstance(hint, ShapeHint):
        raise EncodeError(f"{hint!r} is no shape hint")
    return str(hint)


def _parse_hint(text: str, names: Names) -> ShapeHint:
    try:
        return ShapeHint.parse(text)
    except BcvmError as error:
        raise AssembleError(error.what, fix=error.fix) from None


def _show_signature(number: Any, names: Names) -> str:
    if type(number) is not int or (number and number not in names.signatures):
        raise EncodeError(f"signature {number!r} does not exist")
    return f"0x{number:04X}"


def _parse_signature(text: str, names: Names) -> int:
    match = _SIGNATURE.match(text)
    if match is None:
        raise AssembleError(f"{text!r} where a signature belongs", fix="write 0x0000 (resolved when bound) or the number of a .sig line")
    number = int(match[1], 16)
    if number and number not in names.signatures:
        raise AssembleError(f"signature {text} has no .sig line", fix=f"add '.sig {text} = op(dtype:layout:memory, ...)' or write 0x0000")
    return names.signatures[number] if number else 0


def _parse_scalar(text: str, names: Names) -> Any:
    value = literals.Parser(text, {}).whole()
    if type(value) not in (bool, int, float, complex):
        raise AssembleError(f"{text!r} where a Python number belongs", fix="write a number such as 2.0, or load a constant")
    return value


def _show_scalar(value: Any, names: Names) -> str:
    if type(value) not in (bool, int, float, complex):
        raise EncodeError(f"{value!r} is no Python number")
    return literals.show(value)


def _show_label(pc: Any, names: Names) -> str:
    if type(pc) is not int or pc not in names.labels:
        raise EncodeError(f"the jump target {pc!r} is outside the program")
    return str(names.labels[pc])


def _parse_label(text: str, names: Names) -> int:
    found = names.labels.get(text)
    if type(found) is not int:
        raise AssembleError(f"no label {text!r} in this program", fix=f"add a line 'label {text}:' where the jump leads")
    return found


def _show_policy(number: Any, names: Names) -> str:
    if type(number) is not int or not 0 <= number < 10**9:
        raise EncodeError(f"{number!r} is no policy number")
    return f"policy_{number:03d}"


def _parse_policy(text: str, names: Names) -> int:
    match = _POLICY.match(text)
    if match is None:
        raise AssembleError(f"{text!r} where a policy belongs", fix="write policy_001, policy_002, ...")
    return int(match[1])


def _show_device(name: Any, names: Names) -> str:
    if type(name) is not str:
        raise EncodeError(f"{name!r} is no device name")
    return name if _DEVICE.match(name) else quoted(name)


def _parse_device(text: str, names: Names) -> str:
    return text if _DEVICE.match(text) else parse_name(text)


_REGISTER = TextForm(_show_index("r"), _parse_index("r"))
_NAME_FORM = TextForm(lambda value, names: show_name(value), lambda text, names: parse_name(text))
_DEVICE_FORM = TextForm(_show_device, _parse_device)

FORMS: dict[Kind, TextForm] = {
    Kind.DEST: _REGISTER,
    Kind.OPT_DEST: _optional(_REGISTER),
    Kind.DESTS: _list(_REGISTER),
    Kind.REG: _REGISTER,
    Kind.OPT_REG: _optional(_REGISTER),
    Kind.VAR: _NAME_FORM,
    Kind.HINT: TextForm(_show_hint, _parse_hint),
    Kind.OP: _NAME_FORM,
    Kind.SIG: TextForm(_show_signature, _parse_signature),
    Kind.ARGS: _list(TextForm(_show_arg, _parse_arg)),
    Kind.CONST: TextForm(_show_index("k"), _parse_index("k")),
    Kind.SCALAR: TextForm(_show_scalar, _parse_scalar),
    Kind.LABEL: TextForm(_show_label, _parse_label),
    Kind.POLICY: TextForm(_show_policy, _parse_policy),
    Kind.HOST: TextForm(_show_index("h"), _parse_index("h")),
    Kind.DEVICE: _DEVICE_FORM,
    Kind.DEVICES: _list(_DEVICE_FORM),
}


def show_operands(row: OpcodeRow, operands: tuple[Any, ...], names: Names) -> str:
    """The operand column of one instruction. Raises EncodeError.

    A list at the end is bare, a list before other operands stands in parentheses; an optional
    register at the end that is absent is left out.
    """
    if len(operands) != len(row.operands):
        raise EncodeError(f"{row.name} takes {len(row.operands)} operands, not {len(operands)}")
    parts = []
    for position, ((_, kind), value) in enumerate(zip(row.operands, operands, strict=True)):
        form, last = FORMS[kind], position == len(operands) - 1
        if form.many and type(value) is not tuple:
            raise EncodeError(f"{value!r} where {row.name} takes a tuple")
        text = form.show(value, names)
        parts.append(f"({text})" if form.many and not last else text)
    while parts and (parts[-1] == "" or (parts[-1] == NOTHING and row.operands[len(parts) - 1][1] in (Kind.OPT_REG, Kind.OPT_DEST))):
        parts.pop()
        break
    return ", ".join(parts)


def parse_operands(row: OpcodeRow, text: str, names: Names) -> tuple[Any, ...]:
    """The operands of one instruction from its operand column. Raises AssembleError."""
    parts = split(text)
    if "" in parts:
        raise AssembleError("an operand is empty", fix="remove the extra comma")
    values: list[Any] = []
    for position, (label, kind) in enumerate(row.operands):
        form, last = FORMS[kind], position == len(row.operands) - 1
        if form.many and last:
            values.append(tuple(part for field in parts[position:] for part in form.parse(field, names)))
            return tuple(values)
        if position >= len(parts):
            if last and kind in (Kind.OPT_REG, Kind.OPT_DEST):
                return (*values, None)
            raise AssembleError(f"{row.name} lacks its operand {label!r}", fix=f"{row.name} takes {_usage(row)}")
        field = parts[position]
        if form.many:
            if not (field.startswith("(") and field.endswith(")")):
                raise AssembleError(f"{row.name} takes a list in parentheses as {label!r}", fix=f"{row.name} takes {_usage(row)}")
            field = field[1:-1]
        values.append(form.parse(field, names))
    if len(parts) > len(row.operands):
        raise AssembleError(f"{row.name} has {len(parts)} operands", fix=f"{row.name} takes {_usage(row)}")
    return tuple(values)


def _usage(row: OpcodeRow) -> str:
    return ", ".join(f"{label} ({kind.value})" for label, kind in row.operands) or "no operands"
