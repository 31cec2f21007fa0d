"""The rows of an experiment: columns, measures, points."""
