"""Questions put to an implementation beside the test vectors, each answered by numbers."""
