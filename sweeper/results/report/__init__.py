"""The report page of a sweep: one HTML file that works offline.

data     collects the data of the page
page     writes the file, with figures drawn by matplotlib
page.html, page.css, page.js
         the page itself
curves.js
         draws training curves
"""
