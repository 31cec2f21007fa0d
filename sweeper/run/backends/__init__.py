"""The backends, on which runs execute: one file for each value of `hydra/launcher`.

The function `backend(context)` of a file returns a `Backend` (sweeper/run/backend.py). The class
`Options` describes the keys of conf/hydra/launcher/<name>.yaml. Every sweep imports all files. So a
file imports its engine, such as Ray, only inside functions.
"""
