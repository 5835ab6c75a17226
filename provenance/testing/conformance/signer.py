"""What every `RecordSigner` does."""

from __future__ import annotations

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from provenance.ports import RecordSigner

__all__ = ["RecordSignerConformance"]


class RecordSignerConformance:
    """Fill in ``signer``."""

    @pytest.fixture
    def signer(self) -> RecordSigner:
        raise NotImplementedError

    @pytest.mark.parametrize("message", [b"", b"DSSEv1 1 a 1 b", bytes(70_000)])
    def test_its_signatures_hold_for_its_key(self, signer: RecordSigner, message: bytes) -> None:
        signature = signer.sign(message)
        assert len(signer.public_key()) == 32
        assert len(signature) == 64
        Ed25519PublicKey.from_public_bytes(signer.public_key()).verify(signature, message)

    def test_they_hold_for_no_other_message(self, signer: RecordSigner) -> None:
        key = Ed25519PublicKey.from_public_bytes(signer.public_key())
        with pytest.raises(InvalidSignature):
            key.verify(signer.sign(b"one"), b"other")

    def test_the_same_message_has_the_same_signature(self, signer: RecordSigner) -> None:
        assert signer.sign(b"one") == signer.sign(b"one")
        assert signer.sign(b"one") != signer.sign(b"two")
