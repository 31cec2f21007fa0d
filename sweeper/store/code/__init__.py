"""Which state of the code trains: told by its parts, and kept where jobs of later start from it."""
