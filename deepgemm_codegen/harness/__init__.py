"""Is a generated kernel right? Buffers, oracle, launches, verdicts."""
