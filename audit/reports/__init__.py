"""How it is told: every report format, one module per format."""

from rlvraudit.audit.reports.report import Report
from rlvraudit.kernels.registry import collect

REPORTS = collect(Report, __name__, __path__)
