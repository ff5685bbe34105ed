"""``python -m zscout`` is ``zscout``."""

from zscout.cli import main

main()
