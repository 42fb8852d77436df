"""The losses of every framework that is installed, audited one after the other."""

from collections.abc import Callable
from dataclasses import dataclass

from rlvraudit.audit.errors import (
    AuditError,
    Exit,
    NothingToCheckError,
    UsageError,
    worst,
)
from rlvraudit.audit.implementations.adapters import ADAPTERS, AdapterError
from rlvraudit.audit.implementations.families import Declared
from rlvraudit.audit.implementations.inspection import (
    DTYPES,
    Inspection,
    inspect_implementation,
)
from rlvraudit.audit.implementations.loading import load_implementation

LABELS = {"grpo.advantages": "advantages"}


@dataclass(frozen=True, slots=True)
class Survey:
    """What was seen of each loss, by framework and objective, and what was not run."""

    inspections: tuple[tuple[str, Inspection], ...]
    not_run: tuple[tuple[str, str], ...]

    @property
    def exit(self) -> Exit:
        """The worst of all; a framework that is not installed was not asked for."""
        return worst(seen.exit for _, seen in self.inspections)


def survey(
    objective: str | None = None,
    dtypes: tuple[str, ...] = DTYPES,
    device: str = "cpu",
    progress: Callable[[str], None] = lambda _: None,
) -> Survey:
    """Audit the losses of all frameworks that are installed.

    Raises:
        UsageError: No framework has that objective.
        NothingToCheckError: None is installed.
    """
    known = sorted({target for adapter in ADAPTERS.values() for target in adapter.losses})
    if objective not in (None, *known):
        raise UsageError(f"no framework has {objective!r} here; there are {', '.join(known)}")
    seen: list[tuple[str, Inspection]] = []
    absent: list[tuple[str, str]] = []
    for name, adapter in ADAPTERS.items():
        for target in adapter.losses:
            if objective not in (None, target):
                continue
            progress(f"{name}: {target}")
            label = f"{name} {LABELS.get(target, target.partition('.')[0])}"
            try:
                found = load_implementation(name, target, {})
                declared = Declared(None if target.endswith(".surrogate") else target)
                seen.append((label, inspect_implementation(found, declared, dtypes, device)))
            except AdapterError as error:
                absent.append((name, str(error)))
                break
            except AuditError as error:
                absent.append((label, str(error)))
    if not seen:
        raise NothingToCheckError(
            "no framework is installed here; pip install --no-deps trl, for one"
        )
    return Survey(tuple(seen), tuple(absent))
