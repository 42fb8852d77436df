"""What to look at and what to say: evidence, rules, results, implementations, runs, reports."""
