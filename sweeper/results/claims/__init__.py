"""The claims, one file each, found by name; evidence/ is what they share.

A claim is a module with a pure function `check(table, *, <role>="<arm>", ...) -> Verdict`. To add
one, write `claims/<name>.py` and name it under `claims` in the experiment's yaml.
"""
