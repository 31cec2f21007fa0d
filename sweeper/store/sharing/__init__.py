"""What machines that share a folder tell each other through it, and how one waits."""
