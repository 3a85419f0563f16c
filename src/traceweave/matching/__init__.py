"""Which calls of different ranks are one collective, one send with its receive.

`worker_threads` tells which groups gloo's threads serve, and `messages_by_order` which of its sends
and receives are one message; `calls` reads the calls, `groups` finds their process groups, `peers`
who the other side of a message is; `match` gives every call its instance or a reason why it has
none (`outcome`): by sequence number, or by order (`by_order`, whose `alignment` of two ranks rests
on `shifts`, `voting` and `coarse_clocks`), messages per sender and receiver (`buffered` where NCCL
buffers them). Where no label names the group, `open_calls` looks for groups that calls prove
(`groups_by_evidence`: aligned `strands` are candidates, `ties` says what ties them and how else
they may be divided) and for the pairs of messages (`messages_by_evidence`, which rests on `turns`),
on the clocks of all ranks so far (`common_time`). Which of two readings is likelier, of shifts as
of groups and pairs, `evidence` says.
"""
