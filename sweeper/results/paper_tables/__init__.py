"""What the paper prints beside what was measured."""
