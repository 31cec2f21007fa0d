"""BERT's pre-training: masked tokens and the next sentence."""
