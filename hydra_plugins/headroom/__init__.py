"""Headroom's adapters for Hydra: thin and cheap, for Hydra imports them at every start."""
