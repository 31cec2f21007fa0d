"""An experiment as a person writes it: read, checked, named."""
