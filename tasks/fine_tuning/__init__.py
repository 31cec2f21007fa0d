"""The data and model code that all fine-tuning tasks share."""
