"""Setting up the embedded chain: the contract, organisation 1, its keys.

The governance account does it with its first transactions, in a fixed order, so its own nonce says what is
done already: a set-up that was interrupted, or undone by a chain that lost blocks, goes on where it stands.
Nonce 0 deploys, hence the contract has the same address on every chain of this folder (`spec/anchoring.md`,
"Contract").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from provenance.errors import MismatchError, VerificationError
from provenance.ports import DeployCall, ListRecordKeyCall, SetKeyCall

if TYPE_CHECKING:
    from provenance.ports import Call, ChainIdentity, ChainReader
    from provenance.services.sending import Sender

__all__ = ["ORGANISATION", "SET_UP_NONCES", "Founding", "SetUp", "check_contract", "set_up_chain"]

ORGANISATION = 1
SET_UP_NONCES = 3
"""How many transactions of the governance account set a chain up."""
_PUBLISHER = 2


@dataclass(frozen=True, slots=True)
class Founding:
    """Who founds the embedded chain: a name of 1 to 32 bytes, two 20-byte addresses, an Ed25519 key."""

    organisation: str
    governance: bytes
    publisher: bytes
    record_key: bytes


@dataclass(frozen=True, slots=True)
class SetUp:
    """The chain as it stands now, and whether the contract was deployed by this call."""

    identity: ChainIdentity
    deployed: bool


def set_up_chain(reader: ChainReader, governance: Sender, founding: Founding, *, code_hash: bytes) -> SetUp:
    """Deploy the contract and enrol the organisation's keys, as far as that is not done.

    Args:
        reader: the chain, and the contract where the governance key's first transaction deploys it.
        governance: the governance account.
        founding: who.
        code_hash: SHA-256 of the released contract's runtime code.

    Raises:
        VerificationError: the governance account was used otherwise, or other code stands at the address.
    """
    governance.settle_all()
    steps: list[tuple[str, Call]] = [
        ("deploying the contract", DeployCall(founding.organisation, founding.governance)),
        ("enrolling the publisher's key", SetKeyCall(founding.publisher, _PUBLISHER)),
        ("listing the record-signing key", ListRecordKeyCall(founding.record_key)),
    ]
    first = done = governance.nonce()
    while done < len(steps):  # the nonce decides anew each time: the chain may be set back meanwhile
        what, call = steps[done]
        governance.attempt(call, what, nonce=done)
        done = governance.nonce()
    identity = reader.identity()
    check_contract(identity, code_hash)
    return SetUp(identity, deployed=first == 0)


def check_contract(identity: ChainIdentity, code_hash: bytes) -> None:
    """Raise ``VerificationError`` unless the contract with this code stands on the chain."""
    if identity.code_hash is None:
        raise VerificationError(
            f"chain {identity.chain_id}: no ledger contract stands at the address that is expected",
            reason="no-contract",
            remedy="Correct the contract's address; on the embedded chain, use a governance key of its own.",
        )
    if identity.code_hash != code_hash:
        raise MismatchError(
            f"chain {identity.chain_id}: code hash of the ledger contract",
            expected=code_hash.hex(),
            actual=identity.code_hash.hex(),
            reason="code-hash",
            remedy="Use the release that deployed it, or correct the contract's address.",
        )
