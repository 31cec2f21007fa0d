"""The figures, one file each, found by the experiment's `figure` key.

A figure is a module with `draw(table) -> matplotlib.figure.Figure`, under the style sheet `RC`: it
makes curves of the table's points, has `fill` draw a panel of them and `lay_out` the rest. What the
figures share lies in layout/:

    series   which points make a curve, and where they lie (numbers only, no drawing)
    panel    one pair of axes: curves with their seeds and intervals, scales, ticks
    labels   words beside lines and points
    layout   what stands around the panels: title, legend, notes
    style    house.mplstyle, shades, and text that may hold anything
    palette  the colours of the arms, which the report shares
"""
