"""Write down what the installed CuPy has: names, keywords, methods. Run as ``python tests/fake_cupy/generate.py``.

CuPy can be imported without a GPU, and arrays of it can be made over ordinary memory, as long as nothing computes. That
is enough to ask it for its names and the keywords of its functions, and to see what its universal functions refuse.
The answer is ``cupy.json`` beside this file, from which fake CuPy is built. Nothing in it depends on the machine.
"""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
SPECIFICATION = HERE / "cupy.json"


def specification() -> dict:
    """Return what CuPy has, as plain lists and dictionaries."""
    import cupy

    names = [name for name in dir(cupy) if not name.startswith("_")]
    kinds: dict = {"ufuncs": {}, "functions": {}, "types": [], "constants": [], "modules": []}
    array = _array(cupy)
    for name in names:
        value = getattr(cupy, name)
        if isinstance(value, cupy.ufunc):
            kinds["ufuncs"][name] = {method: _has(value, method, array) for method in ("reduce", "accumulate")} | {
                "reduceat": _has(value, "reduceat", array),
                "at": value._scatter_op is not None,
                "inputs": value.nin,
                "outputs": value.nout,
            }
        elif inspect.ismodule(value):
            kinds["modules"].append(name)
        elif isinstance(value, type):
            kinds["types"].append(name)
        elif callable(value):
            kinds["functions"][name] = _parameters(value)
        else:
            kinds["constants"].append(name)
    return {
        "cupy": cupy.__version__,
        **kinds,
        "linalg": _functions(cupy.linalg),
        "random": _functions(cupy.random),
        "generator": _functions(cupy.random.Generator),
        "ndarray": {
            "methods": _functions(cupy.ndarray),
            "attributes": [
                name
                for name in dir(cupy.ndarray)
                if not name.startswith("_") and not callable(getattr(cupy.ndarray, name))
            ],
            "special": [name for name in dir(cupy.ndarray) if name.startswith("__")],
        },
        "flags": [name for name in dir(array.flags) if not name.startswith("_")],
        "words": {
            "conversion": _complaint(lambda: np.asarray(array)),
            "where": _complaint(lambda: cupy.add(array, array, where=True)),
            "fill": _complaint(lambda: array.__setitem__(0, np.zeros(2))),
        },
    }


def _array(cupy):
    """Return an array over ordinary memory; whatever needs a kernel fails."""
    host = np.zeros((2, 2), dtype=np.float32)
    memory = cupy.cuda.UnownedMemory(host.ctypes.data, host.nbytes, host, 0)
    return cupy.ndarray(host.shape, host.dtype, cupy.cuda.MemoryPointer(memory, 0))


def _has(ufunc, method: str, array) -> bool:
    """Tell whether a universal function has a method: without a GPU it fails either way, but in other words."""
    arguments = {"reduceat": (array, [0])}.get(method, (array,))
    try:
        getattr(ufunc, method)(*arguments)
    except NotImplementedError:
        return False
    except Exception:
        return True
    return True


def _complaint(function) -> str:
    try:
        function()
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return "none"


def _functions(owner) -> dict:
    found = {}
    for name in dir(owner):
        value = getattr(owner, name)
        if not name.startswith("_") and callable(value) and not isinstance(value, type):
            found[name] = [parameter for parameter in _parameters(value) if parameter != "self"]
    return found


def _parameters(function) -> list[str]:
    """Return the names of a function's parameters, those that take any number with their stars."""
    try:
        parameters = inspect.signature(function).parameters.values()
        return [{p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "") + p.name for p in parameters]
    except (TypeError, ValueError):
        pass
    # Compiled functions say it in the first line of their documentation: name(self, axis=None, Py_ssize_t n) -> type
    inside = re.search(r"\((.*)\)", (function.__doc__ or "").strip().split("\n")[0])
    if inside is None:
        return ["*arguments", "**keywords"]
    depth, parts = 0, [""]
    for letter in inside.group(1):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    names = [part.split("=")[0].split(":")[0].split() for part in parts]
    return [words[-1] for words in names if words and words[-1] not in ("*", "/")]


if __name__ == "__main__":
    SPECIFICATION.write_text(json.dumps(specification(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"written to {SPECIFICATION}")
