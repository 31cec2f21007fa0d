"""Where runs execute: one file each, found by the name that `hydra/launcher` gives.

`backend(context)` of a file returns its `Backend` (see sweeper/run/backend.py); its options are
conf/hydra/launcher/<name>.yaml. Engines are imported when they are asked for, not before.
"""
