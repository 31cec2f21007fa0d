"""Headroom as an installed package: what a checkout holds side by side lies in this one folder.

`import headroom_attention` makes `models`, `tasks` and `sweeper` importable, as they are in a
checkout: for a notebook, or for the tests of a package of one's own.
"""

import sys
from pathlib import Path

HOUSE = Path(__file__).resolve().parent
if not (HOUSE / "sweep.py").is_file():  # a checkout: the same folders, one above
    HOUSE = HOUSE.parent
if str(HOUSE) not in sys.path:
    sys.path.insert(0, str(HOUSE))
