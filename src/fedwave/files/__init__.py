"""Files: bounded readers for untrusted files, atomic writes, one archive of arrays."""
