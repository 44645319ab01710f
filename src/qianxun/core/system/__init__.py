"""What the machine is asked for beyond computing: files that survive power loss (`durable`), pauses of the garbage
collector (`gc_pause`)."""
