"""What pytest does not collect here."""

# It runs in a process of its own.
collect_ignore = ["last_release"]
