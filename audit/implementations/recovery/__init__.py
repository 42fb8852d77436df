"""Recovery: what a loss computes, found out by calling it."""
