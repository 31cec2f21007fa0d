"""Plugins for Hydra. Hydra imports them at every start, so their import must be fast."""
