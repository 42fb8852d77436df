"""Which implementation a user means: a function in a module or file, or a framework's loss.

Only what is named is run. A user's folder goes to the end of the import path, never to its front,
so that nothing in it can stand in for a library.
"""

import contextlib
import importlib
import inspect
import io
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from rlvraudit.audit.errors import UnreadableError, UsageError
from rlvraudit.audit.implementations.adapters import ADAPTERS
from rlvraudit.audit.implementations.implementation import INPUTS, Implementation

CUSTOMARY: Mapping[str, Any] = {
    "clip_low": 0.2,
    "clip_high": 0.28,
    "clip_min": 0.1,
    "clip_max": 0.3,
    "aggregation": "seq-mean-token-mean",
    "norm": 64.0,
    "dual_clip": 3.0,
    "beta": 1.0,
    "estimator": "k3",
    "scale": "std",
    "ddof": 1,
    "epsilon": 1e-4,
    "denominator_epsilon": 1e-8,
}
"""What a function gets for a parameter that it demands and nobody sets."""


def load_implementation(
    spec: str, objective: str | None, chosen: Mapping[str, Any]
) -> Implementation:
    """Return the implementation that `spec` names, with the parameters that it is called with.

    Args:
        spec: "module:function", "file.py:function", "framework" or "framework=CHECKOUT".
        objective: Which loss of a framework.
        chosen: Values of parameters that replace defaults.

    Raises:
        UsageError: Nothing is called that, or it can't be called with what there is.
        UnreadableError: Importing the module raised.
        AdapterError: The framework is not there, or lacks what the adapter calls.
    """
    name, equals, checkout = spec.partition("=")
    if equals and name in ADAPTERS and not checkout:
        raise UsageError(f"--impl {spec} names no folder; expected {name}=/path/to/checkout")
    if name in ADAPTERS:
        return _framework(name, Path(checkout) if equals else None, objective, chosen)
    place, colon, function = spec.rpartition(":")
    if not colon or not place or not function:
        raise UsageError(
            f"--impl {spec!r} names no function; expected MODULE:FUNCTION, FILE.py:FUNCTION or one "
            f"of {', '.join(sorted(ADAPTERS))}"
        )
    module = _file(Path(place)) if place.endswith(".py") else _module(place)
    return wrap(_attribute(module, function, spec), spec, chosen)


def _framework(
    name: str, checkout: Path | None, objective: str | None, chosen: Mapping[str, Any]
) -> Implementation:
    if checkout is not None and ADAPTERS[name].package:
        raise UsageError(f"{name} is audited where it is installed, not from a checkout")
    losses = ADAPTERS[name].losses
    wanted = objective or next(iter(losses))
    if wanted not in losses:
        raise UsageError(f"{name} has no {wanted} here; there are {', '.join(losses)}")
    found = losses[wanted](checkout)
    kept = {name: value for name, value in chosen.items() if name in found.parameters}
    spec = name if checkout is None else f"{name}={checkout}"
    return replace(found, name=spec, parameters={**found.parameters, **kept})


def _file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"--impl: there is no file {path}")
    _reachable(path.resolve().parent)
    spec = spec_from_file_location(f"rlvraudit_audited_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UsageError(f"--impl: {path} is no Python file")
    module = module_from_spec(spec)
    sys.modules[module.__name__] = module
    with _importing(str(path)):
        spec.loader.exec_module(module)
    return module


def _module(name: str) -> ModuleType:
    _reachable(Path.cwd())
    with _importing(name):
        return importlib.import_module(name)


def _reachable(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


@contextlib.contextmanager
def _importing(what: str) -> Iterator[None]:
    """Turn whatever importing raises into a message."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    except ModuleNotFoundError as error:
        raise UsageError(f"--impl {what}: {error}; is it installed, or below here?") from error
    except (Exception, SystemExit) as error:
        raise UnreadableError(f"importing {what} raised {type(error).__name__}: {error}") from error


def _attribute(module: ModuleType, path: str, spec: str) -> Callable[..., Any]:
    found: Any = module
    for part in path.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        known = sorted(n for n, v in vars(module).items() if inspect.isfunction(v))
        rest = f"it defines {', '.join(known)}" if known else "it defines none"
        raise UsageError(f"--impl {spec}: no function {path}; {rest}")
    function: Callable[..., Any] = found
    return function


def wrap(function: Callable[..., Any], name: str, chosen: Mapping[str, Any]) -> Implementation:
    """Return a function as an implementation, by the names of its signature.

    Raises:
        UsageError: It demands something that nothing gives, or asks for no input known here.
    """
    # A torch module is called through __call__, whose own signature says nothing.
    try:
        signature = inspect.signature(getattr(function, "forward", function)).parameters.values()
    except ValueError:
        raise UsageError(f"{name} has no signature that says what it asks for") from None
    named = [p for p in signature if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    inputs = tuple(p.name for p in named if p.name in INPUTS)
    if not inputs:
        raise UsageError(f"{name} asks for none of {', '.join(INPUTS)}: a wrapper gives it names")
    if any(p.kind == p.POSITIONAL_ONLY for p in named):
        raise UsageError(f"{name} has positional-only arguments; it is called by keyword")
    declared = {p.name: p for p in named if p.name not in INPUTS}
    parameters = {name_: _value(parameter, chosen, name) for name_, parameter in declared.items()}
    open_ended = any(p.kind == p.VAR_KEYWORD for p in signature)
    rest = {n: v for n, v in chosen.items() if open_ended and n not in parameters}
    parameters.update(rest)
    called = f"{name}, by keyword"
    return Implementation(name, function, inputs, parameters, called, swallowed=tuple(rest))


def _value(parameter: inspect.Parameter, chosen: Mapping[str, Any], name: str) -> Any:
    if parameter.name in chosen:
        return chosen[parameter.name]
    if parameter.default is not parameter.empty:
        return parameter.default
    if parameter.name in CUSTOMARY:
        return CUSTOMARY[parameter.name]
    raise UsageError(
        f"{name} demands {parameter.name!r}, which is neither an input nor a known parameter; "
        f"give it with --set {parameter.name}=VALUE"
    )
