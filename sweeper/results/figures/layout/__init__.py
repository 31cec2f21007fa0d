"""What all figures share: style, panels, labels, ticks."""
