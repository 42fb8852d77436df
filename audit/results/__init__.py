"""Which method is better: per-item results, their formats, pairing and estimates."""
