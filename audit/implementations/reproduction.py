"""A script that shows a fault by itself: the input, the call, and what the closed form gives.

It needs torch and the code under test, nothing of this toolkit. A file of one's own is written
into it if it imports nothing but torch and the standard library; otherwise it is imported.
"""

import ast
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rlvraudit.audit.errors import UsageError
from rlvraudit.audit.implementations.adapters import ADAPTERS
from rlvraudit.audit.implementations.card import Example, Fault
from rlvraudit.audit.implementations.implementation import VARIABLES
from rlvraudit.audit.implementations.inspection import Inspection

ALONE = {"torch", *sys.stdlib_module_names}
HEAD = '''"""{name}: {kind}.

{sentence}
Expected values are those of the closed form in float64. Exit status 1 while the fault is there.
"""
'''
CALL = """
import torch

nan, inf = float("nan"), float("inf")
{inputs}
before = {{name: tensor.clone() for name, tensor in inputs.items()}}
variable = next((inputs[name] for name in {variables} if name in inputs), None)
if variable is not None:
    variable.requires_grad_()
try:
    result = audited(**inputs, **{parameters})
except Exception as error:
    print(f"it raised {{type(error).__name__}}: {{error}}")
    raise SystemExit(1)
value = result[0] if isinstance(result, (tuple, list)) else result
seen = value.detach().double()
expected = torch.tensor({value}, dtype=torch.float64).reshape(seen.shape)
print("value    ", seen.tolist(), " expected", expected.tolist())
if expected.isnan().all():  # any finite number would do
    wrong = not bool(seen.isfinite().all())
else:
    wrong = not torch.allclose(seen, expected, rtol={tolerance}, atol={tolerance})
gradient = {gradient}
if variable is not None and gradient is not None:
    got = None
    if value.requires_grad:
        (got,) = torch.autograd.grad(value.sum(), variable, allow_unused=True)
    got = (torch.zeros_like(variable) if got is None else got).double()
    right = torch.tensor(gradient, dtype=torch.float64)
    print("gradient ", got.tolist())
    print("expected ", right.tolist())
    wrong |= not torch.allclose(got, right, rtol={tolerance}, atol={tolerance})
for name, tensor in inputs.items():
    if not torch.equal(before[name].nan_to_num(), tensor.detach().nan_to_num()):
        print("it writes into", name)
        wrong = True
print("it differs from the closed form" if wrong else "it agrees with the closed form")
raise SystemExit(int(wrong))
"""
AS_MODULE = """
# What follows is a module, not a program.
import sys

sys.modules["audited"] = sys.modules[__name__]
__name__ = "audited"
"""
TOLERANCE = {"float64": 1e-9, "float32": 1e-5}


def script(seen: Inspection) -> str:
    """Return the script for the first fault that an input shows.

    Raises:
        UsageError: There is no fault that an input shows.
    """
    fault = next((fault for fault in seen.faults if fault.example is not None), None)
    if fault is None or fault.example is None:
        raise UsageError("there is no fault that an input shows: --repro has nothing to write")
    return (
        _head(seen, fault)
        + _source(seen.implementation.name, seen.declared.objective)
        + _call(seen, fault.example)
    )


def _head(seen: Inspection, fault: Fault) -> str:
    text = HEAD.format(name=seen.implementation.name, kind=fault.kind, sentence=fault.sentence)
    return text.replace("\\", "\\\\")


def _source(spec: str, objective: str | None) -> str:
    """Return what defines `audited`: the code itself where it stands alone, else its import."""
    place, _, function = spec.rpartition(":")
    if spec.partition("=")[0] in ADAPTERS:
        return (
            "\n# A framework's loss is called through its adapter, which rlvr-audit provides.\n"
            "from rlvraudit.audit.implementations.loading import load_implementation\n\n"
            f"audited = load_implementation({spec!r}, {objective!r}, {{}}).call\n"
        )
    if not place.endswith(".py"):
        return f"\nimport {place}\n\naudited = {place}.{function}\n"
    text = Path(place).read_text("utf-8")
    if _alone(text):
        end = f"# --- end of {place} ---\n\naudited = {function}\n"
        return f"{AS_MODULE}\n# --- {place} ---\n{text}\n{end}"
    where = str(Path(place).resolve())
    return (
        "\nimport runpy, sys\n\n"
        f"sys.path.append({str(Path(where).parent)!r})\n"
        f"audited = runpy.run_path({where!r})[{function.partition('.')[0]!r}]\n"
        + "".join(f"audited = audited.{part}\n" for part in function.split(".")[1:])
    )


def _alone(text: str) -> bool:
    """Whether a file imports torch and the standard library only, and no future."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = ["." if node.level else str(node.module)]
        else:
            continue
        roots = {name.partition(".")[0] for name in names}
        if not roots <= ALONE or "__future__" in roots:
            return False
    return True


def _call(seen: Inspection, example: Example) -> str:
    gradient = example.expected.gradient
    return CALL.format(
        inputs=_tensors(example.inputs, example.dtype),
        variables=(example.wrt,) if example.wrt else VARIABLES,
        parameters=_literals({**seen.implementation.parameters, **seen.declared.called}),
        value=_literal(example.expected.value),
        gradient=_literal(gradient) if gradient.size else None,
        tolerance=TOLERANCE.get(example.dtype, 1e-2),
    )


def _literals(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that can be written down; others are defaults of the code."""
    return {
        name: value
        for name, value in parameters.items()
        if value is None or isinstance(value, bool | int | float | str)
    }


def _tensors(inputs: Mapping[str, Any], dtype: str) -> str:
    lines = ["inputs = {"]
    for name, values in inputs.items():
        kind = f", dtype=torch.{dtype}" if values.dtype.kind == "f" else ""
        lines.append(f"    {name!r}: torch.tensor({_literal(values)}{kind}),")
    return "\n".join([*lines, "}"])


def _literal(values: Any) -> str:
    return repr(np.asarray(values).tolist())
