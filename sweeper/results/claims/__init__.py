"""The claims, one file each, found by name.

A claim is a module with a pure function `claim(design, *, <role>="<arm>", ...) -> Statement`, which
returns contrasts of points and how they combine (results/design.py). results/decision.py judges
them, explains the decision and computes its expected cost.

To add one, write `claims/<name>.py`, its first line the question, and name it under `claims` in the
experiment's yaml.
"""
