"""The batcher's rules, as state machines without I/O (`spec/anchoring.md`, "The batcher's steps").

`begin` and `step` are the machine of one stream; it has at most one transaction that is not final. `settle`
judges the transactions of one account, which the streams of a process share. Its places are in `places`,
what it asks and hears in `messages`, the rules in `checking`, `making` and `anchoring`.
`provenance.services.batching` performs the instructions; several streams are several machines over one
account.

====  ===========================================  ==========================================
step  what is done                                 a crash there means
====  ===========================================  ==========================================
0     settle the journal                           repeated
1     read the head                                nothing
2     check file, log identity, last message       nothing
3     read, close by count, bytes or age           other boundaries next time, harmless
4     put the file, read it back                   an orphan file, harmless
5     sign over prevAcc, journal, sync             step 0 sends it
6     send                                         step 0 looks it up
7     wait until final                             step 0
8     drop orphans of the seq, forget the entry    repeated
====  ===========================================  ==========================================

The chain is the truth about position, so a machine that lost everything begins again at step 1.
"""

from __future__ import annotations

from provenance.core.batcher.account import Account, Ending, Nonces, Settlement, next_nonce, settle
from provenance.core.batcher.machine import begin, step
from provenance.core.batcher.pile import Limits, Message, Pile, add_messages, build_from_pile, empty_pile
from provenance.core.batcher.places import State

__all__ = [
    "Account",
    "Ending",
    "Limits",
    "Message",
    "Nonces",
    "Pile",
    "Settlement",
    "State",
    "add_messages",
    "begin",
    "build_from_pile",
    "empty_pile",
    "next_nonce",
    "settle",
    "step",
]
