"""Text for language models: its sources, tokenizers and files of encoded text."""
