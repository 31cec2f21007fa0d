"""What the claims share: verdicts, and what a verdict rests on."""
