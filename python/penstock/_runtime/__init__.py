"""Runtime of an instance: event loop, processes, signals of forks, tracing. Called by the Rust core."""
