"""Measurements that print; run by `make bench` and `make reference`. Nothing here is asserted."""
