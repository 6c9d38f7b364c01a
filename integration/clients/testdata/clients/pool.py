"""A lock that is kept alive over one connection of a pool of redis-py, and asked about over others:
python3 pool.py HOST PORT."""
import re
import sys
import time

import redis


def check(got, want):
    if got != want:
        raise AssertionError(f"got {got!r}, want {want!r}")


host, port = sys.argv[1], int(sys.argv[2])
pool = redis.ConnectionPool(host=host, port=port, decode_responses=True)
r = redis.Redis(connection_pool=pool)
held = redis.Redis(connection_pool=pool, single_connection_client=True)  # one that is not given back
name = f"pool:{port}"


def told(*command):
    """Whether the command is answered that the hold was lost."""
    try:
        r.execute_command(*command)
    except redis.ResponseError as error:
        return re.match(lost, str(error))


token, fence = held.execute_command("LOCK", name, "PX", 6000, "KEEPALIVE")[:2]
check(r.execute_command("LOCKCTL", "BREAK", name), 1)
# It is gone if the proxy was not listening yet when its first hold was broken.
lost = rf"LOCKLOST {name} was lost \((broken|gone)\), fence {fence}: "
until = time.monotonic() + 120
while not told("LOCKCTL", "CHECK", name, token):
    if time.monotonic() > until:
        raise AssertionError("nobody is told of the loss")
    time.sleep(0.01)

# What is asked without that token is not refused, over any connection.
for client in r, held:
    other = client.execute_command("LOCK", name)
    check(client.execute_command("UNLOCK", name, other[0]), 1)
    other = client.execute_command("LOCK", name + ":other", "TOKEN", token)
    check(client.execute_command("UNLOCK", name + ":other", token), 1)

for command in ("UNLOCK", "RENEW"):
    if not told(command, name, token):
        raise AssertionError(f"{command} is not told of the loss")
check(held.execute_command("LOCK", name, "TOKEN", token)[0], token)
check(r.execute_command("UNLOCK", name, token), 1)

# A connection that the pool drops frees the lock only when it has lingered: another one takes it over meanwhile.
held.execute_command("LOCK", name, "TOKEN", "t", "PX", 60000, "KEEPALIVE", "LINGER", 60000)
held.connection.disconnect()
time.sleep(0.3)
check(r.execute_command("LOCK", name), None)
if not r.execute_command("RENEW", name, "t", "PX", 60000, "KEEPALIVE"):
    raise AssertionError("it is free")
check(r.execute_command("UNLOCK", name, "t"), 1)
print("ok")
