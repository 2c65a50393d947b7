"""Everything at once, for long: `python -m tests.chaos --minutes 10`. The report says what was lost, and what leaks."""

import sys
from pathlib import Path

# What all folders of tests share.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
