"""Formats of the report on an audit, one module per format."""

from rlvraudit.audit.reports.format import Report
from rlvraudit.kernels.registry import collect

REPORTS = collect(Report, __name__, __path__)
