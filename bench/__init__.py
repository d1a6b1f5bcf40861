"""Benchmarks of the gateway and its peers. Run them with `python -m bench`."""
