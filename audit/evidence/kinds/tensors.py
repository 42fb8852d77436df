"""Arrays in safetensors files."""

from rlvraudit.audit.evidence.kinds.kind import Kind, Parsed
from rlvraudit.audit.evidence.safetensors import read

TENSORS = Kind("tensors", "1", lambda s: Parsed(read(s.data, s.limits)), measured=True)
