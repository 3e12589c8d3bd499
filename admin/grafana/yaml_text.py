"""YAML of dictionaries, lists and scalars, laid out to be read; Python's library has none."""

import json
import re

# What no reader of YAML takes for anything but this text.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*( [A-Za-z0-9_./-]+)*")
_WORDS = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}


def _scalar(value):
    if not isinstance(value, str):
        return json.dumps(value)
    return value if _PLAIN.fullmatch(value) and value.lower() not in _WORDS else json.dumps(value, ensure_ascii=False)


def _lines(value):
    if isinstance(value, dict):
        for name, member in value.items():
            yield from _member(f"{name}:", member)
    else:
        for element in value:
            first, *rest = _lines(element) if isinstance(element, (dict, list)) else [_scalar(element)]
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)


def _member(name, value):
    if isinstance(value, str) and "\n" in value:
        yield f"{name} |-"
        yield from (f"  {line}" for line in value.split("\n"))
    elif isinstance(value, (dict, list)) and value:
        yield name
        yield from (f"  {line}" for line in _lines(value))
    else:
        yield f"{name} {_scalar(value)}"


def as_yaml(value):
    return "\n".join(_lines(value)) + "\n"
