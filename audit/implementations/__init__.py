"""What does this code compute: kernels and losses under test."""
