"""The places where runs execute: one file for each value of `hydra/launcher`.

The function `backend(context)` of a file returns its `Backend` (sweeper/run/backend.py). Its class
`Options` describes the keys of conf/hydra/launcher/<name>.yaml. A file imports its engine, such as
Ray, inside functions only: every sweep imports all files.
"""
