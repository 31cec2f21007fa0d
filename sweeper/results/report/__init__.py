"""The page of a sweep: one HTML file that works without a network.

data     collects what the page shows
page     writes the file
page.html, page.css, page.js, charts.js
         the page itself; vendor/ holds uPlot, which draws axes and lines of its charts
"""
