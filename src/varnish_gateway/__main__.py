"""``python -m varnish_gateway`` is ``vgw``."""

import sys

from varnish_gateway.cli.main import main

sys.exit(main())
