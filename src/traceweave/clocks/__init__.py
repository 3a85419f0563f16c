"""The clock of every rank, estimated from matched collectives: offset, drift, bound, residuals.

`matrices` arranges the collectives. `piece` fits a line per clock: from a `first_estimate` by least
squares (`fit`; its `equations` know `transfer_classes`, `ring_lags` and the `scatter` of ends;
`elimination` solves them, by `dense_groups`, `thin_groups` and a `clock_system` of `clusters`, over
the `columns` that groups share; `positive` what is left at once), inside what causality proves
(`bounds`; of many ranks `wide_bounds`). Where lines do not describe the clocks, `bending` finds
`bends`: `bend_clusters` says whose clocks bend alike, `steps` where one may have stepped,
`joint_bends` the steps and the wander of all at once. `estimate` takes lines and bends in turns,
and `stretches` make rows of them. `residuals` are what a fit leaves over, `violations` what still
contradicts causality. `tables` writes what was found, each `clock` a row.
"""
