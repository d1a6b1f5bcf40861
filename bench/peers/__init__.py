"""The servers that Portico is measured against, one file each."""
