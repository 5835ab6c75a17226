"""Signing and sending transactions with a key of this process; a `Transactor`.

Fees are found out at the chain: nothing where gas is free, EIP-1559 where blocks have a base fee, else a gas
price; never more than the limit that was set. Gas limits are fixed for each call, well above what it takes,
for a call cannot be estimated before those that it follows are mined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from eth_account import Account
from eth_utils.address import to_checksum_address
from web3.utils.address import get_create_address

from provenance.adapters.evm._codec import Revert, decode_revert, encode_call
from provenance.adapters.evm._node import NodeRefusedError, data, member, quantity
from provenance.errors import ConfigError, MalformedError, UnavailableError
from provenance.ports import (
    AnchorCall,
    CloseCall,
    DeployCall,
    ListRecordKeyCall,
    OpenCall,
    SetKeyCall,
    SignedTransaction,
    TxState,
)

if TYPE_CHECKING:
    from eth_account.signers.local import LocalAccount

    from provenance.adapters.evm._node import Node
    from provenance.ports import Call

__all__ = ["EvmTransactor", "created_address"]

# Two to three times what docs/reference/contract.md measures; what is not used is not paid.
_GAS_LIMITS: dict[type, int] = {
    AnchorCall: 200_000,
    OpenCall: 500_000,
    CloseCall: 120_000,
    DeployCall: 6_000_000,
    SetKeyCall: 200_000,
    ListRecordKeyCall: 250_000,
}
_MAX_FEE = 1000 * 10**9  # wei per gas
_METHOD_NOT_FOUND = -32601
_HARMLESS = ("already known", "known transaction", "already imported", "nonce too low", "correct nonce")


class EvmTransactor:
    """One account, whose key is in this process, sending to the ledger contract through one node.

    Args:
        node: the node.
        secret: the secp256k1 key, 32 bytes.
        chain_id: the chain that signatures are for.
        contract: the contract's 20-byte address; None before it is deployed.
        depth: how many blocks must follow a transaction's own for it to be final.
        max_fee: the most to pay, in wei per gas.
    """

    def __init__(
        self,
        node: Node,
        *,
        secret: bytes,
        chain_id: int,
        contract: bytes | None,
        depth: int = 0,
        max_fee: int = _MAX_FEE,
    ) -> None:
        self._node = node
        self._account: LocalAccount = Account.from_key(secret)
        self._chain_id = chain_id
        self._contract = contract
        self._depth = depth
        self._max_fee = max_fee

    @property
    def address(self) -> bytes:
        """The account's 20-byte address."""
        return bytes.fromhex(self._account.address[2:])

    def sign(self, call: Call, nonce: int) -> SignedTransaction:
        """Sign the call with this nonce, at the fees of now. Sends nothing.

        Raises:
            ConfigError: no contract to call, or gas costs more than the limit.
            UnavailableError: the node does not answer.
        """
        transaction: dict[str, Any] = {
            "chainId": self._chain_id,
            "nonce": nonce,
            "gas": _GAS_LIMITS[type(call)],
            "value": 0,
            "data": "0x" + encode_call(call).hex(),
            **self._fees(),
        }
        to = self._destination(call)
        if to is not None:
            transaction["to"] = to
        signed = self._account.sign_transaction(transaction)
        return SignedTransaction(nonce, bytes(signed.hash), bytes(signed.raw_transaction))

    def send(self, raw: bytes) -> None:
        """Send signed bytes. That the node knows them, or that their nonce is spent, is no error."""
        try:
            self._node.call("eth_sendRawTransaction", "0x" + raw.hex())
        except NodeRefusedError as error:
            text = error.text.lower()
            # Development chains that answer with the revert have mined the transaction all the same.
            if "revert" in text or any(phrase in text for phrase in _HARMLESS):
                return
            if "insufficient funds" in text:
                raise ConfigError(
                    f"the account {self._account.address} cannot pay for gas",
                    reason="insufficient-funds",
                    remedy="Give it some of the chain's currency, then call the same command again.",
                ) from None
            raise

    def state(self, tx_hash: bytes) -> TxState:
        """What has become of a transaction."""
        found = self._node.call("eth_getTransactionReceipt", "0x" + tx_hash.hex())
        if found is None:
            known = self._node.call("eth_getTransactionByHash", "0x" + tx_hash.hex())
            return TxState.UNKNOWN if known is None else TxState.PENDING
        receipt = member(found, "a receipt")
        if data(receipt.get("transactionHash"), "hash in a receipt", 32) != tx_hash:
            raise MalformedError("a node's answer: a receipt of another transaction", reason="receipt")
        status = quantity(receipt.get("status"), "status of a receipt", bits=1)
        mined = quantity(receipt.get("blockNumber"), "block of a receipt")
        if self._depth and self._height() - mined < self._depth:
            return TxState.MINED
        return TxState.FINAL if status else TxState.REVERTED

    def nonce(self, *, final: bool = False) -> int:
        """The account's next nonce by mined transactions only; with ``final``, by those that are final."""
        block = "latest"
        if final and self._depth:
            block = hex(max(0, self._height() - self._depth))
        return quantity(self._node.call("eth_getTransactionCount", self._account.address, block), "nonce")

    def dry_run(self, call: Call) -> Revert | None:
        """Why the contract would refuse the call now; None if it would not.

        Raises:
            NodeRefusedError: the node refuses it for another reason.
        """
        question = {"from": self._account.address, "data": "0x" + encode_call(call).hex()}
        to = self._destination(call)
        if to is not None:
            question["to"] = to
        try:
            self._node.call("eth_call", question, "latest")
        except NodeRefusedError as error:
            revert = decode_revert(_revert_data(error.data))
            if revert is None:
                raise
            return revert
        return None

    def _destination(self, call: Call) -> str | None:
        if isinstance(call, DeployCall):
            return None
        if self._contract is None:
            raise ConfigError(
                "no ledger contract is named", reason="no-contract", remedy="Deploy one, or name its address."
            )
        return to_checksum_address(self._contract)

    def _height(self) -> int:
        return quantity(self._node.call("eth_blockNumber"), "block number")

    def _fees(self) -> dict[str, int]:
        """The fields of a transaction that say what is paid for gas."""
        price = quantity(self._node.call("eth_gasPrice"), "gas price", bits=128)
        block = member(self._node.call("eth_getBlockByNumber", "latest", False), "a block")
        if block.get("baseFeePerGas") is None:
            return {"gasPrice": self._limited(price)}
        base = quantity(block["baseFeePerGas"], "base fee", bits=128)
        tip = self._tip(price, base)
        # Twice the base fee: it can rise by an eighth with each block, and only what it is gets paid.
        return {"maxFeePerGas": self._limited(2 * base + tip), "maxPriorityFeePerGas": tip}

    def _tip(self, price: int, base: int) -> int:
        if price == 0:
            return 0
        try:
            return quantity(self._node.call("eth_maxPriorityFeePerGas"), "priority fee", bits=128)
        except NodeRefusedError as error:
            if error.code != _METHOD_NOT_FOUND:
                raise
            return max(0, price - base)

    def _limited(self, fee: int) -> int:
        if fee > self._max_fee:
            raise UnavailableError(
                f"the chain asks {fee} wei per gas, the limit is {self._max_fee}",
                reason="fee-limit",
                remedy="Wait until gas is cheaper, or raise the limit.",
            )
        return fee

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._account.address})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a signing key does not leave its process")


def created_address(sender: bytes, nonce: int) -> bytes:
    """The 20-byte address of the contract that an account deploys with a nonce."""
    address = get_create_address(to_checksum_address(sender), nonce)  # type: ignore[arg-type]
    return bytes.fromhex(address[2:])


def _revert_data(value: object) -> bytes:
    """The contract's answer in a node's error: the bytes themselves, or inside an object."""
    for _ in range(4):
        if isinstance(value, dict):
            value = value.get("data") or value.get("result") or next(iter(value.values()), None)
    try:
        return data(value, "data of a revert")
    except MalformedError:
        return b""
