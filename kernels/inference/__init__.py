"""Statistics per item: the paired bootstrap, its exact companions, and pass@k. NumPy only."""
