"""``python -m zscout.lab.stored FOLDER``, or with files of ``zscout compare --json``."""

import json
import sys
from pathlib import Path

from zscout.lab.stored import collect, collect_league

paths = [Path(word) for word in sys.argv[1:]]
entries = collect_league(paths) if all(path.is_file() for path in paths) else collect(paths[0])
print("[\n" + ",\n".join(json.dumps(entry) for entry in entries) + "\n]")
