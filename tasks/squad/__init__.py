"""Fine-tuning on SQuAD v1.1, whose questions are answered by a part of a paragraph."""
