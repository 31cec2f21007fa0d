"""BERT's pre-training: masked words and the next segment."""
