"""The clock of every rank, estimated from matched collectives: offset, drift, bound, residuals.

`matrices` arranges the collectives, `probes` the exchanges of clock probes, and `ends` lists what
of both tells clocks. From a `start` (lines along a tree, hosts that share a clock) one penalised
linear model is fitted: `system`, over the functions of `basis`; `growth` says which clocks bend and
step, and learns variances. `bounds` is what causality proves, `answer` makes rows of both,
`estimate` runs all of it. `violations` are what still contradicts causality, and `tables` writes
the rows, each a `clock`.
"""
