"""What the tasks share that fine-tune a pre-trained encoder."""
