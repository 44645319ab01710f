"""What the machine is asked for beyond computing: files that survive power loss (`durable`), errors that are a
shortage and no damage (`shortages`), slots that owners share (`fair_slots`), pauses of the garbage collector
(`gc_pause`), pools of memory (`memory`), a bounded cache (`cache`)."""
