"""`python -m penstock` is the `penstock` command."""

import sys

from penstock._cli.main import main

if __name__ == "__main__":
    sys.exit(main())
