"""What is there: supplements, receipts and traces, read once and strictly."""
