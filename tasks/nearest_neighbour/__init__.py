"""The nearest-neighbour task: many small heads against a large one."""
