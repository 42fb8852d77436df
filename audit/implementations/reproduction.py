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
for name in {variables}:
    if name in inputs:
        inputs[name].requires_grad_()
try:
    result = {function}(**inputs, **{parameters})
except Exception as error:
    raise SystemExit(f"it raised {{type(error).__name__}}: {{error}}")
value = result[0] if isinstance(result, (tuple, list)) else result
expected = {value}
seen = value.detach().double()
print("value    ", seen.tolist(), " expected", expected)
wrong = not torch.allclose(seen, torch.tensor(expected).double(), rtol=1e-9, atol=1e-9)
variable = next((inputs[name] for name in {variables} if name in inputs), None)
gradient = {gradient}
if variable is not None and gradient is not None:
    got = None
    if value.requires_grad:
        (got,) = torch.autograd.grad(value, variable, allow_unused=True)
    got = torch.zeros_like(variable) if got is None else got
    print("gradient ", got.tolist())
    print("expected ", gradient)
    right = torch.tensor(gradient).double()
    wrong |= not torch.allclose(got.double(), right, rtol=1e-9, atol=1e-9)
print("it differs from the closed form" if wrong else "it agrees with the closed form")
raise SystemExit(int(wrong))
"""


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
        return f"\n# --- {place} ---\n{text}\n# --- end of {place} ---\n\naudited = {function}\n"
    where = str(Path(place).resolve())
    return (
        "\nimport runpy, sys\n\n"
        f"sys.path.append({str(Path(where).parent)!r})\n"
        f"audited = runpy.run_path({where!r})[{function!r}]\n"
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
        function="audited",
        variables=VARIABLES,
        parameters=dict(seen.implementation.parameters),
        value=_literal(example.expected.value),
        gradient=_literal(gradient) if gradient.size else None,
    )


def _tensors(inputs: Mapping[str, Any], dtype: str) -> str:
    lines = ["inputs = {"]
    for name, values in inputs.items():
        kind = f", dtype=torch.{dtype}" if values.dtype.kind == "f" else ""
        lines.append(f"    {name!r}: torch.tensor({_literal(values)}{kind}),")
    return "\n".join([*lines, "}"])


def _literal(values: Any) -> str:
    return repr(np.asarray(values).tolist())
