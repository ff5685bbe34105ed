"""The paper: its claims, figures, stored results and models; run from a checkout, not part of the package.

``python -m reproduction`` runs it all and writes the report.
"""

import zscout.base.stopping  # noqa: F401  # from here on Ctrl-C ends it in one line
