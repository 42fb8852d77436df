"""Does it hold: every rule, one module per family."""

from rlvraudit.audit.rules.rule import Rule
from rlvraudit.kernels.registry import collect

RULES = collect(Rule, __name__, __path__)
