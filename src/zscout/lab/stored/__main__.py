"""``python -m zscout.lab.stored FOLDER``."""

import json
import sys
from pathlib import Path

from zscout.lab.stored import collect

print("[\n" + ",\n".join(json.dumps(entry) for entry in collect(Path(sys.argv[1]))) + "\n]")
