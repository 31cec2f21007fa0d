"""PyTorch models whose head size is independent of their embedding size."""
