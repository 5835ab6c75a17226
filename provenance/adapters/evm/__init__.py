"""The ledger contract on an EVM chain, through a node's JSON-RPC.

`Node` asks one node and believes nothing of its form; `EvmReader` and `EvmTransactor` implement the ports
upon it. Importing this package imports web3.py, which takes a second: whoever wires adapters imports it
late.
"""

from provenance.adapters.evm._codec import Revert
from provenance.adapters.evm._node import Node, NodeRefusedError
from provenance.adapters.evm._reader import EvmReader
from provenance.adapters.evm._transactor import EvmTransactor, created_address

__all__ = ["EvmReader", "EvmTransactor", "Node", "NodeRefusedError", "Revert", "created_address"]
