"""Connects ssh to an sshd of its own, without a network: proxy.py SSHD_CONFIG LIMITS

LIMITS is a file, `UP DOWN HOLD`: after so many bytes to the sshd, or from it, nothing more passes (-1: no limit). Then
the connection is closed, or kept open for HOLD seconds more. The file is removed: it is for one connection.
"""
import os
import select
import socket
import subprocess
import sys
import time

config, limits = sys.argv[1:]
left, hold = [-1, -1], 0
if os.path.exists(limits):
    *left, hold = map(int, open(limits).read().split())
    os.remove(limits)
ours, theirs = socket.socketpair()
subprocess.Popen(["/usr/sbin/sshd", "-i", "-f", config], stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL)
theirs.close()
UP, DOWN = 0, 1
ways = {0: (ours.fileno(), UP), ours.fileno(): (1, DOWN)}
while 0 not in left:
    for source in select.select(list(ways), [], [])[0]:
        to, way = ways[source]
        try:
            data = os.read(source, 65536 if left[way] < 0 else min(65536, left[way]))
            if not data:
                sys.exit()
            if left[way] > 0:
                left[way] -= len(data)
            while data:
                data = data[os.write(to, data):]
        except OSError:
            sys.exit()
        if left[way] == 0:
            break
time.sleep(hold)
