"""One page of work, measured on the gateway and on its peers. Run with `python -m bench`."""
