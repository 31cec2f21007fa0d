"""Plan sweeps, train their runs, and judge and draw the results, without importing torch."""
