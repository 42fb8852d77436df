"""The runs that leave traces and receipts."""
