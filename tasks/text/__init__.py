"""Text for language models: its sources, its tokenizers and its encoding."""
