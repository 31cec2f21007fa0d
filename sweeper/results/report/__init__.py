"""The page of a sweep: one HTML file that works without a network.

data     collects what the page shows
page     writes the file
page.html, page.css, page.js
         the page itself; vendor/ holds uPlot, which draws its charts
"""
