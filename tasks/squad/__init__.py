"""SQuAD v1.1: questions whose answers are parts of a paragraph."""
