"""A trained run as a folder that transformers loads: weights, config, tokenizer and model card."""
