"""Types of artifact: what each is called, and how its bytes become a value."""

from rlvraudit.audit.evidence.kinds.kind import Kind
from rlvraudit.kernels.registry import collect

KINDS = collect(Kind, __name__, __path__)
