"""The figures, one file each, found by the experiment's `figure` key.

A figure is a module with `draw(table) -> matplotlib.figure.Figure`. To add one, write
`figures/<name>.py` and name it under `figure` in the experiment's yaml. The other modules here are
what the figures share:

    series   which points make a curve, and where they lie (numbers only, no drawing)
    palette  the colours of the arms, which the report shares
    style    sizes, fonts, and text that may hold anything
    ticks    scales and ticks that can be read
    panel    one pair of axes: curves with their seeds and intervals
    labels   words beside lines and points
    layout   what stands around the panels: title, legend, notes
"""
