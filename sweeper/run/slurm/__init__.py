"""Slurm, for the backend of that name: its queue, what it lets a user do, what its jobs execute."""
