import sys

from bitr.cli import main

sys.exit(main())
