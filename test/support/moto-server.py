"""Starts moto, an implementation of S3 by others, on a port of the loopback address: moto-server.py FOLDER PORT [SERVICE].

FOLDER has the package, unpacked. Requests take turns: moto looks at a condition and writes in two steps, between which another
thread may write.
"""

import logging
import os
import sys
import threading

folder, port = sys.argv[1], int(sys.argv[2])
os.environ["MOTO_PORT"] = str(port)
# Its own client must not look for credentials on this machine.
for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
    os.environ[name] = "moto"
sys.path.insert(0, os.path.join(folder, "usr/lib/python3/dist-packages"))

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app  # noqa: E402
from werkzeug.serving import WSGIRequestHandler, run_simple  # noqa: E402

logging.getLogger("werkzeug").setLevel(logging.ERROR)
application = create_backend_app(sys.argv[3]) if len(sys.argv) > 3 else DomainDispatcherApplication(create_backend_app)
turn = threading.Lock()


def in_turn(environ, start_response):
    with turn:
        return list(application(environ, start_response))


class KeepAlive(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body are written one after the other: the second would wait for an acknowledgement.
    disable_nagle_algorithm = True

    def send_header(self, keyword, value):
        # Connections are kept, as S3 does.
        if keyword.lower() != "connection":
            super().send_header(keyword, value)


run_simple("127.0.0.1", port, in_turn, threaded=True, request_handler=KeepAlive)
