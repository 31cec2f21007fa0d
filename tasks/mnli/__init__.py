"""Fine-tuning on MultiNLI: classification of the relation between two sentences."""
