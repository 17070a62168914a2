#!/usr/bin/env python3
"""A made-up meter: made-up-meter.py [PORT]. It answers as a Shelly socket does, on loopback.

Its watts are no measurement: they follow from how many of this machine's CPUs are busy by /proc/stat. 20 W while
all are idle, 37 W more for the first busy CPU, 8 W for each further one, and 5% of noise.
"""
import http.server
import json
import random
import sys
import threading
import time

NEW_VALUE_S = 0.1


def ticks():
    """Of each CPU: idle ones, and all."""
    with open("/proc/stat") as stat:
        lines = [line.split() for line in stat if line[:3] == "cpu" and line[3] != " "]
    return [(int(line[4]) + int(line[5]), sum(map(int, line[1:9]))) for line in lines]


def watch(meter):
    before = ticks()
    while True:
        time.sleep(NEW_VALUE_S)
        after = ticks()
        pairs = zip(before, after)
        busy = sum(now[0] - then[0] < (now[1] - then[1]) / 2 for then, now in pairs)
        true = 20 if busy == 0 else 57 + 8 * (busy - 1)
        meter["apower"] = round(random.gauss(true, true * 0.05), 1)
        before = after


METER = {"apower": 20.0}


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"switch:0": METER}).encode()
        self.send_response(200 if self.path == "/rpc/Shelly.GetStatus" else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


threading.Thread(target=watch, args=(METER,), daemon=True).start()
port = int(sys.argv[1]) if len(sys.argv) > 1 else 8099
http.server.ThreadingHTTPServer(("127.0.0.1", port), Answer).serve_forever()
