"""Plain PyTorch models whose head size is free of their embedding size."""
