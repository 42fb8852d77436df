"""Let tests import the modules in `support`."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent / "support"))
