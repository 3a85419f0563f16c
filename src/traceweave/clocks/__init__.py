"""The clock of every rank, estimated from matched collectives: offset, drift, bound, residuals.

`matrices` arranges the collectives and the exchanges of clock probes, and `ends` lists what of both
tells clocks. From a `start` (lines along a tree, hosts that share a clock) one penalised linear
`model` is fitted; `growth` lets its clocks bend and step as `candidates` seem to, as long as that
pays, and learns `variances`. `bounds` is what causality proves, `answer` runs all of it and makes
rows, each a `clock`, which `tables` writes beside what still contradicts causality.
"""
