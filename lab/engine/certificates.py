"""``python -m lab.engine.certificates FOLDER``: what scheduler, workers and lab need to know each other by TLS.

Three files: ``cert.pem`` and ``key.pem``, with which each of them shows that it belongs, and ``ca.pem``, with which each
checks the others. A machine that is to take part needs a copy of all three; whoever has them can run code on the workers.
"""

from __future__ import annotations

import datetime
import os
import sys
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from lab.files import write_whole

FILES = ("ca.pem", "cert.pem", "key.pem")
YEARS = 10


def make_certificates(folder: Path) -> bool:
    """Make the three files in ``folder`` unless they are all there, the key readable by its owner alone; whether they were made.

    The authority that signs lives only here: its own key is written nowhere, so that nobody can add a member later.
    Raises OSError where the folder cannot be written.
    """
    if all((folder / name).exists() for name in FILES):
        return False
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _certificate("Diffusion Placement Lab: authority", authority_key.public_key(), authority_key, ca=True)
    member = _certificate("Diffusion Placement Lab", key.public_key(), authority_key, ca=False)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    before = os.umask(0o077)  # the files are private from their first byte on
    try:
        for name, data in zip(FILES, (_pem(authority), _pem(member), private), strict=True):
            write_whole(folder / name, data)
    finally:
        os.umask(before)
    return True


def _certificate(
    name: str, key: ec.EllipticCurvePublicKey, signer: ec.EllipticCurvePrivateKey, *, ca: bool
) -> x509.Certificate:
    """A certificate of ``key`` that the authority signs; its own where ``ca``."""
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Diffusion Placement Lab: authority")])
    now = datetime.datetime.now(datetime.UTC)
    usage = {"digital_signature": not ca, "key_cert_sign": ca, "crl_sign": ca}
    others = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))  # clocks of machines differ
        .not_valid_after(now + datetime.timedelta(days=365 * YEARS))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=0 if ca else None), critical=True)
        .add_extension(
            x509.KeyUsage(**usage, **dict.fromkeys(others, False), encipher_only=False, decipher_only=False),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def main(arguments: list[str]) -> int:
    """The command; its exit status."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        sys.stderr.write("Usage: python -m lab.engine.certificates FOLDER\n")
        return 2
    folder = Path(arguments[0])
    try:
        made = make_certificates(folder)
    except OSError as error:
        sys.stderr.write(f"The certificates could not be written: {error}\n")
        return 1
    sys.stdout.write(f"{folder} {'now has' if made else 'already has'} {', '.join(FILES)}.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
