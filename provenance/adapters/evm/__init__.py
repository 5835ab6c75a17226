"""The ledger contract on an EVM chain, through a node's JSON-RPC.

`Node` asks one node and believes nothing of its form; `EvmReader` and `EvmTransactor` implement the ports
upon it. Importing this package imports web3.py, which takes a second: whoever wires adapters imports it
late.
"""

import sys

_RECURSION = sys.getrecursionlimit()

from provenance.adapters.evm._codec import Revert  # noqa: E402
from provenance.adapters.evm._node import Node, NodeRefusedError  # noqa: E402
from provenance.adapters.evm._reader import EvmReader  # noqa: E402
from provenance.adapters.evm._transactor import EvmTransactor, created_address  # noqa: E402

# A library below web3.py (py_ecc) sets it to 100,000 for the whole process. There a nested JSON text, of a
# node or of anybody who writes to the log, would overrun the stack and end the process instead of being
# refused.
sys.setrecursionlimit(_RECURSION)

__all__ = ["EvmReader", "EvmTransactor", "Node", "NodeRefusedError", "Revert", "created_address"]
