"""The jobs that train a run. They join its config, its data and its model with Lightning."""
