"""Light loading: one function or file of a framework, without what its package drags in.

Frameworks import in seconds, or not at all on a CPU. What an adapter calls is a function of
arrays, so its source is taken from where it is installed and run in a namespace that holds what
it names and nothing else. What is missing there is said by name, never replaced by a guess.
"""

import ast
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from rlvraudit.audit.implementations.adapters.adapter import AdapterError


def installed(package: str) -> str:
    """Return the version of an installed distribution, without importing it.

    Raises:
        AdapterError: It is not installed.
    """
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        raise AdapterError(f"{package} is not installed; pip install --no-deps {package}") from None


def source(package: str, path: str) -> Path:
    """Return where the file `path` of an installed distribution is.

    Raises:
        AdapterError: The distribution or the file is not there.
    """
    version = installed(package)
    found = Path(str(metadata.distribution(package).locate_file(path)))
    if not found.is_file():
        raise AdapterError(f"{package} {version} needs {path}, which is not there")
    return found


def in_checkout(checkout: Path | None, name: str, path: str) -> Path:
    """Return where the file `path` of a checkout is.

    Raises:
        AdapterError: No checkout was given, or the file is not in it.
    """
    if checkout is None:
        raise AdapterError(f"{name} is audited from a checkout: --impl {name}=/path/to/checkout")
    found = checkout / path
    if not found.is_file():
        raise AdapterError(f"{name} at {checkout} needs {path}, which is not there")
    return found


def extract(path: Path, names: tuple[str, ...], namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Return functions or classes of a source file, run alone in `namespace`.

    `names` are those of the module's body, or "Class.method" for a method as a plain function.

    Raises:
        AdapterError: The file does not define one of them.
    """
    tree = ast.parse(path.read_text("utf-8"), str(path))
    body = [_definition(tree, name, path) for name in names]
    future = ast.parse("from __future__ import annotations").body
    module = ast.Module([*future, *body], [])
    scope = dict(namespace)
    exec(compile(ast.fix_missing_locations(module), str(path), "exec"), scope)
    return {name: scope[name.rpartition(".")[2]] for name in names}


def _definition(tree: ast.Module, name: str, path: Path) -> ast.stmt:
    body: list[ast.stmt] = tree.body
    found: ast.stmt | None = None
    for part in name.split("."):
        found = next((node for node in body if getattr(node, "name", None) == part), None)
        if found is None:
            raise AdapterError(f"{path} needs {name}, which it does not define")
        body = getattr(found, "body", [])
    assert found is not None
    return found


def load(path: Path, stubs: Mapping[str, ModuleType]) -> ModuleType:
    """Return a source file as a module, imported while `stubs` stand for modules it imports.

    Raises:
        AdapterError: Its own imports fail.
    """
    name = f"rlvraudit_loaded_{path.stem}"
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    with _standing_in({**stubs, name: module}):
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            raise AdapterError(f"{path} can't be loaded: {error}") from error
    return module


@contextmanager
def _standing_in(stubs: Mapping[str, ModuleType]) -> Iterator[None]:
    """Put `stubs` into the table of modules, and what was there back afterwards."""
    before = {name: sys.modules.get(name) for name in stubs}
    sys.modules.update(stubs)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module


def stub(name: str, **attributes: Any) -> ModuleType:
    """Return an empty module with these attributes."""
    module = ModuleType(name)
    vars(module).update(attributes)
    return module


def needed(thing: Any, attribute: str, what: str) -> Any:
    """Return an attribute, or say that `what` needs it.

    Raises:
        AdapterError: It is not there.
    """
    try:
        return getattr(thing, attribute)
    except AttributeError:
        raise AdapterError(f"{what} needs {attribute}, which is not there") from None
