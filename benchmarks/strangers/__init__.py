"""A second, independent opinion on matching and clocks: whole jobs, written as real files."""
