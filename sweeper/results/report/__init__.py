"""The page of a sweep: one HTML file that works without a network.

data     collects what the page shows
page     writes the file, with the figures that matplotlib drew
page.html, page.css, page.js
         the page itself; curves.js draws training curves
"""
