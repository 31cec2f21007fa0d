"""The backends, which execute runs. `hydra/launcher=NAME` chooses the file NAME.py.

In each file the function `backend(context)` returns a `Backend` (sweeper/run/backend.py), and the
class `Options` is the schema of conf/hydra/launcher/<name>.yaml. Every sweep imports all files, so
each file imports its engine, such as Ray, only inside functions.
"""
