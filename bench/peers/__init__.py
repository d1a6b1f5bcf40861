"""The servers that the bench compares with Portico, in one file each."""
