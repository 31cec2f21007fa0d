"""Figures, one file each, found by the experiment's `figure` key.

A figure is a module with `draw(table) -> matplotlib.figure.Figure`, under the style sheet `RC`. It
splits the table's points into series, draws each panel with `fill`, and adds title, legend and
notes with `lay_out`. Figures share two modules:

    layout/panel    style, series, panels, labels, legend and notes
    layout/palette  colours and markers of the arms, which the report shares
"""
