"""What a check of all streams finds, in the form in which it is kept and shown."""
