"""The small part of JSONPath that evidence refs use: `$`, `.name` and `[index]`."""

import re
from typing import Any

_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\[(\d+)\]")


def resolve(path: str, value: Any) -> Any:
    """What stands at `path` in `value`. Raises `LookupError` where nothing does, `ValueError` for another syntax."""
    if not path.startswith("$"):
        raise ValueError(f"not a path: {path!r}")
    position = 1
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            raise ValueError(f"not a path: {path!r}")
        name, index = step.groups()
        if name is not None:
            if not isinstance(value, dict):
                raise LookupError(f"{path!r}: no object before .{name}")
            value = value[name]
        else:
            if not isinstance(value, list):
                raise LookupError(f"{path!r}: no list before [{index}]")
            value = value[int(index)]
        position = step.end()
    return value
