"""The checks behind the claims, one file each, found by name.

A check is a pure function `check(table, *, <role>="<arm>", ...) -> Verdict`. To add one, write
`claims/<name>.py` and name it under `claims` in the experiment's yaml.
"""
