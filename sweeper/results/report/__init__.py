"""The report page of a sweep: one HTML file that works offline.

data     collects the data of the page
page     writes the file, with the data, and with figures drawn by matplotlib
page.html, page.css, page.js
         the template, style and script of the page
curves.js
         the script that draws training curves
"""
