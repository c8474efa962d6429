"""`python -m tinymemory.testing` serves a loopback CortexDB until it is stopped."""

import sys

from tinymemory.testing.process import main

sys.exit(main())
