"""The clock of every rank, estimated from matched collectives: offset, drift, bound, residuals.

`matrices` arranges the collectives. `estimate` divides the run where a clock steps (`breaks`) and
fits each piece of time (`piece`): from a `first_estimate` by least squares (`fit`; its `equations`,
solved by `elimination`, know `transfer_classes`, `ring_lags` and the `scatter` of ends), inside
what causality proves (`bounds`). `residuals` are what a fit leaves over, `violations` what still
contradicts causality. `tables` writes what was found.
"""
