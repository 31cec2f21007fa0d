"""Plans sweeps, schedules their runs, and judges and draws the results. Never imports torch."""
