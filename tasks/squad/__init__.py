"""SQuAD v1.1: find the answer to a question in a paragraph."""
