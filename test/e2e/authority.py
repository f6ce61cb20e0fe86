# SPDX-License-Identifier: Apache-2.0
"""Certificates for tests of TLS, made by the openssl program."""
import subprocess


def openssl(*words):
    done = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


class Authority:
    """A directory with ca.pem, and certificates signed by it: Certificate.cert and .key."""

    def __init__(self, directory):
        self.directory = directory
        self.ca = directory / "ca.pem"
        self.ca_key = directory / "ca.key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-subj", "/CN=test authority", "-days", "2", "-keyout", self.ca_key, "-out", self.ca)

    def issue(self, name, *, names="DNS:localhost,IP:127.0.0.1", days=1):
        request, extensions = self.directory / f"{name}.csr", self.directory / f"{name}.ext"
        made = Certificate(self, name)
        extensions.write_text(f"subjectAltName={names}\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-subj", f"/CN={name}", "-keyout", made.key, "-out", request)
        openssl("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.ca_key,
                "-CAcreateserial", "-days", days, "-extfile", extensions, "-out", made.cert)
        return made


class Certificate:
    def __init__(self, authority, name):
        self.ca = authority.ca
        self.cert = authority.directory / f"{name}.pem"
        self.key = authority.directory / f"{name}.key"

    @property
    def settings(self):
        return [f"tls_cert_file={self.cert}", f"tls_key_file={self.key}"]
