"""Change streams: capture of every change with its stamp, and reads by partition."""
