"""Plugins for Hydra. Hydra imports this package at every start, so the import must be fast."""
