"""Mixed load with faults for minutes: `python -m tests.chaos --minutes 10` reports lost responses and leaks."""

import sys
from pathlib import Path

# Helpers shared by all test folders.
TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "observing")]
