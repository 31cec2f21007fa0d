"""The page of a sweep: one HTML file that needs nothing else, made of tables, verdicts and records.

page         writes the file: everything a record says goes in as data, never as markup
experiments  what the page shows of an experiment: verdicts, points to draw, rows
runs         what it shows of a run: settings, result, training curves, end of its log
provenance   what the runs were made with: commands, versions, hardware, hours
page.html, page.css, *.js
             the page itself; the scripts are joined in the order of page.SCRIPTS
"""
