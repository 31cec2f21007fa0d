"""Decides what to run: experiments as data, grids, matching, identity, the plan."""
