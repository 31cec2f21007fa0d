"""The base classes and functions that all fine-tuning tasks share."""
