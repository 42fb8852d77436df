"""How it is told: audits in every format, and what the other commands print."""
