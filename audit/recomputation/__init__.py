"""What the recorded numbers of a run should be, computed again from those before them."""
