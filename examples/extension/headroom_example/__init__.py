"""What one package adds to Headroom: pyproject.toml says under which names."""
