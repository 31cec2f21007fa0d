"""The claims, one file each, found by name; evidence/ is what they share.

A claim is a module with a pure function `claim(design, *, <role>="<arm>", ...) -> Statement`: which
contrasts of points it rests on, and how they combine; what judges, words and prices them is one
engine for all. To add one, write `claims/<name>.py`, its first line the question, and name it under
`claims` in the experiment's yaml.
"""
