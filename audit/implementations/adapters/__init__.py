"""Adapters: the losses of the frameworks, called where they stand."""

from rlvraudit.audit.implementations.adapters.adapter import Adapter, AdapterError
from rlvraudit.kernels.registry import collect

ADAPTERS = collect(Adapter, __name__, __path__)

__all__ = ["ADAPTERS", "Adapter", "AdapterError"]
