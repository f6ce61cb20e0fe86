# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 by hand, over h2: one connection whose frames a test decides about."""
import ssl

import h2.connection
import h2.events
from h2.config import H2Configuration


class Stream:
    def __init__(self):
        self.headers, self.body = {}, b""
        self.is_over, self.reset = False, None


class Connection:
    """Cleartext by prior knowledge, or TLS when the server has a certificate."""

    def __init__(self, server, *, rules=True):
        self.socket = server.connect()
        if server.ca:
            context = ssl.create_default_context(cafile=str(server.ca))
            context.set_alpn_protocols(["h2"])
            self.socket = context.wrap_socket(self.socket, server_hostname="127.0.0.1")
            assert self.socket.selected_alpn_protocol() == "h2"
        self.authority = f"127.0.0.1:{server.port}"
        # Without rules the client may send what is wrong.
        self.h2 = h2.connection.H2Connection(H2Configuration(
            client_side=True, header_encoding="utf-8", validate_outbound_headers=rules,
            normalize_outbound_headers=rules))
        self.streams, self.goaway, self.is_gone = {}, None, False
        self.h2.initiate_connection()
        self.flush()

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.socket.close()

    def flush(self):
        self.socket.sendall(self.h2.data_to_send())

    def ask(self, method, path, *, body=None, headers=(), authority=None, ends=True):
        number = self.h2.get_next_available_stream_id()
        self.streams[number] = Stream()
        self.h2.send_headers(number, [(":method", method), (":scheme", "https"),
                                      (":authority", authority or self.authority), (":path", path),
                                      *headers], end_stream=body is None and ends)
        if body is not None:
            self.h2.send_data(number, body, end_stream=ends)
        self.flush()
        return number

    def receive(self):
        """What comes next."""
        data = self.socket.recv(65536)
        if not data:
            self.is_gone = True
            return
        for event in self.h2.receive_data(data):
            stream = self.streams.get(getattr(event, "stream_id", None))
            if isinstance(event, h2.events.ResponseReceived):
                stream.headers = dict(event.headers)
            elif isinstance(event, h2.events.DataReceived):
                stream.body += event.data
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                stream.is_over = True
            elif isinstance(event, h2.events.StreamReset):
                stream.is_over, stream.reset = True, event.error_code
            elif isinstance(event, h2.events.ConnectionTerminated):
                self.goaway = event.error_code
        self.flush()

    def until(self, what):
        while not self.is_gone and not what():
            self.receive()
        assert what(), "the server has closed the connection"

    def wait(self, number):
        """The whole answer: (status, body)."""
        stream = self.streams[number]
        self.until(lambda: stream.is_over)
        return int(stream.headers.get(":status", 0)), stream.body

    def request(self, method, path, **options):
        return self.wait(self.ask(method, path, **options))
