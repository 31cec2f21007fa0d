"""BERT's pre-training: masked language modelling and next-sentence prediction."""
