"""Export of a trained run to a folder that Hugging Face `transformers` can load."""
