"""Files: bounded readers for untrusted ones, whole-file writes, one archive of arrays."""
