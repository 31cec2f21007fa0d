"""An example of a package that extends Headroom. pyproject.toml registers the names."""
