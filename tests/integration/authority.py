"""Authorities for the tests' https servers, made at run time."""

import datetime
import ipaddress
import ssl

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID


def _name(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(subject, issuer, public_key, days):
    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=2))
        .not_valid_after(now + datetime.timedelta(days=days))
    )


class Authority:
    """Its certificate is in `file`. RSA, as most are; its servers' keys are not.
    superior: the authority that vouches for it; its servers show both certificates."""

    def __init__(self, folder, name, superior=None):
        self._folder = folder
        self._name = name
        self._key = rsa.generate_private_key(65537, 2048)
        issuer = superior if superior is not None else self
        builder = _builder(name, issuer._name, self._key.public_key(), days=2)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        certificate = builder.sign(issuer._key, hashes.SHA256())
        self.file = folder / f"{name}.ca.pem"
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        self._shown = self.file.read_bytes() if superior is not None else b""

    def server(self, address="127.0.0.1", days=1):
        """An ssl.SSLContext of a server at this address; with days=-1, expired."""
        path = self.server_file(address, days)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        path.unlink()
        return context

    def server_file(self, address="127.0.0.1", days=1):
        """The same as a file with key and certificate."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder("server", self._name, key.public_key(), days)
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        certificate = builder.add_extension(names, critical=False).sign(self._key, hashes.SHA256())
        path = self._folder / f"{self._name}.server.pem"
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
            + self._shown
        )
        return path
