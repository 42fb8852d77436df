"""Light loading: one function or file of a framework, without what its package drags in.

Frameworks import in seconds, or not at all on a CPU. What an adapter calls is a function of
arrays, so its source is taken from where it is installed and run in a namespace that holds what
it names and nothing else. What is missing there is said by name, never replaced by a guess.
"""

import ast
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from rlvraudit.audit.implementations.adapters.adapter import AdapterError

T = TypeVar("T")


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


def extract(
    path: Path,
    names: tuple[str, ...],
    namespace: Mapping[str, Any],
    what: str = "",
    without: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Return functions or classes of a source file, run alone in `namespace`.

    `names` are those of the module's body, or "Class.method" for a method as a plain function;
    `what` is the framework and its version, for the message where one is missing. Decorators
    named in `without` are left off: what compiles a function, or enters it in a registry.

    Raises:
        AdapterError: The file does not define one of them.
    """
    tree = ast.parse(path.read_text("utf-8"), str(path))
    body = [_undecorated(_definition(tree, name, path, what), without) for name in names]
    future = ast.parse("from __future__ import annotations").body
    module = ast.Module([*future, *body], [])
    scope = dict(namespace)
    exec(compile(ast.fix_missing_locations(module), str(path), "exec"), scope)
    return {name: scope[name.rpartition(".")[2]] for name in names}


def _definition(tree: ast.Module, name: str, path: Path, what: str) -> ast.stmt:
    body: list[ast.stmt] = tree.body
    found: ast.stmt | None = None
    for part in name.split("."):
        found = next((node for node in body if getattr(node, "name", None) == part), None)
        if found is None:
            raise AdapterError(f"{what or path} needs {name}, which {path} does not define")
        body = getattr(found, "body", [])
    assert found is not None
    return found


def _undecorated(definition: ast.stmt, without: tuple[str, ...]) -> ast.stmt:
    if isinstance(definition, ast.FunctionDef):
        definition.decorator_list = [
            each
            for each in definition.decorator_list
            if ast.unparse(each.func if isinstance(each, ast.Call) else each) not in without
        ]
    return definition


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
    with standing_in({**stubs, name: module}):
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            raise AdapterError(f"{path} can't be loaded: {error}") from error
    return module


@contextmanager
def standing_in(stubs: Mapping[str, ModuleType]) -> Iterator[None]:
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


class Given:
    """An object with the attributes it was given; asked for another, it says what is missing."""

    def __init__(self, version: str, owner: str, **attributes: Any) -> None:
        """Take the framework with its version, and what the object stands for there."""
        vars(self).update(attributes, _given_version=version, _given_owner=owner)

    def __getattr__(self, attribute: str) -> Any:
        """Refuse, so that a framework's new option is never given a value by guess.

        Raises:
            AdapterError: Always: attributes that are there are not asked for here.
        """
        if attribute.startswith("_given_"):  # a copy is made before it holds anything
            raise AttributeError(attribute)
        raise AdapterError(
            f"{self._given_version} needs attribute {attribute} of {self._given_owner}, "
            "which its adapter does not know"
        )


def field_defaults(
    path: Path, name: str, fields: tuple[str, ...], what: str = ""
) -> dict[str, Any]:
    """Return the defaults of fields of the class `name`, as they stand in a source file.

    Raises:
        AdapterError: There is no such class, or a field has no literal default.
    """
    definition = _definition(ast.parse(path.read_text("utf-8"), str(path)), name, path, what)
    values = {
        node.target.id: node.value
        for node in getattr(definition, "body", [])
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    return {
        field: _literal(values.get(field), f"{what or path} needs a default of {name}.{field}")
        for field in fields
    }


def _literal(value: ast.expr | None, need: str) -> Any:
    """Return the value of `x`, of `field(default=x)` or of `Field(x)`."""
    if isinstance(value, ast.Call):
        named = [word.value for word in value.keywords if word.arg == "default"]
        value = next(iter([*named, *value.args]), None)
    try:
        return ast.literal_eval(value or "")
    except (ValueError, SyntaxError):
        raise AdapterError(f"{need}, which is not there") from None


def argument_defaults(
    function: Callable[..., Any], names: tuple[str, ...], what: str
) -> dict[str, Any]:
    """Return the defaults of arguments of a function.

    Raises:
        AdapterError: It does not take one of them, or gives it no default.
    """
    declared = inspect.signature(function).parameters
    for name in names:
        if name not in declared or declared[name].default is inspect.Parameter.empty:
            raise AdapterError(f"{what} needs argument {name} with a default, which is not there")
    return {name: declared[name].default for name in names}


def translated(names: Mapping[str, T], name: str, what: str) -> T:
    """Return what a framework has for one of the tool's names, of an aggregation say.

    Raises:
        ValueError: It has nothing for it.
    """
    if name not in names:
        raise ValueError(f"{what} has no {name!r}; it has {', '.join(names)}")
    return names[name]


def named(names: Mapping[str, T], theirs: T, what: str) -> str:
    """Return the tool's name of what a framework has.

    Raises:
        AdapterError: The adapter knows none.
    """
    for ours, known in names.items():
        if known == theirs:
            return ours
    raise AdapterError(f"{what} has {theirs!r}, which its adapter does not know")


def unfamiliar(name: str, version: str, known: tuple[str, ...]) -> str:
    """Return why a version (or a commit) can't pass: it is not one of `known`; else nothing."""
    if version in known:
        return ""
    return f"{name} {version} is not a version this adapter was written for ({', '.join(known)})"
