"""A certificate authority for tests: one CA, and certificates that it signs, as PEM files in a folder."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Authority", "Issued"]

_LIFETIME = dt.timedelta(days=2)


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its private key, each in a file of its own, and both in ``both``."""

    certificate: Path
    key: Path
    both: Path


class Authority:
    """Signs certificates for this machine and for clients.

    Args:
        folder: takes the files; it must be there. Keys in it are for tests, and lie open.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("tests' authority")
        certificate = _builder(self._name, self._name, self._key.public_key(), is_authority=True)
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(_pem(certificate.sign(self._key, hashes.SHA256())))

    def issue(self, name: str) -> Issued:
        """A certificate for clients and for a server on this machine.

        Args:
            name: the common name, and the files' stem.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(name), self._name, key.public_key(), is_authority=False)
        places = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.SubjectAlternativeName(places), critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        issued = Issued(*(self._folder / f"{name}.{kind}.pem" for kind in ("certificate", "key", "both")))
        certificate = _pem(builder.sign(self._key, hashes.SHA256()))
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        issued.certificate.write_bytes(certificate)
        issued.key.write_bytes(secret)
        issued.both.write_bytes(secret + certificate)
        return issued


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, *, is_authority: bool
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _LIFETIME)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
