"""Runs test modules as `python -m unittest -v` does: python -m parts MODULE. The status is 77, CTest's
SKIP, if none failed and some were skipped because this machine lacks what they need. Those of the night
do not count."""
import sys
import unittest

result = unittest.main(module=None, argv=["parts", "-v", *sys.argv[1:]], exit=False).result
lacking = [reason for _, reason in result.skipped if "ctest -L nightly" not in reason]
sys.exit(1 if not result.wasSuccessful() else 77 if lacking else 0)
