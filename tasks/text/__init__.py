"""The parts that all tasks on text share: sources of text, tokenizers and prepared arrays."""
