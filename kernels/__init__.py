"""Reference mathematics: objectives and statistics. Knows nothing of audits, files or terminals."""
