"""Which of three relations holds between two sentences."""
