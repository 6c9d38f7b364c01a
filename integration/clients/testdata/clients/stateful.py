"""Transactions, a blocking pop, a subscription and a script with redis-py through lockproxy:
python3 stateful.py HOST PORT single|cluster."""
import hashlib
import logging
import os
import sys
import threading
import time

import redis
from redis.cluster import RedisCluster


def check(got, want):
    if got != want:
        raise AssertionError(f"got {got!r}, want {want!r}")


host, port, clustered = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "cluster"


def connect():
    logging.getLogger("redis.cluster").disabled = True  # it logs each error that it raises
    return (RedisCluster if clustered else redis.Redis)(host=host, port=port, decode_responses=True)


r = connect()
tag = f"{{py{port}-{os.getpid()}}}:"

# The cluster client leaves transactions to the client of the key's node.
node = r.get_redis_connection(r.get_node_from_key(f"{tag}n")) if clustered else r
check(node.pipeline(transaction=True).set(f"{tag}n", 1).incr(f"{tag}n").get(f"{tag}n").execute(), [True, 2, "2"])
with node.pipeline() as pipe:
    pipe.watch(f"{tag}n")
    check(r.incr(f"{tag}n"), 3)
    pipe.multi()
    pipe.incr(f"{tag}n")
    try:
        pipe.execute()
        raise AssertionError("EXEC ran although the watched key had changed")
    except redis.WatchError:
        pass
check(node.transaction(lambda pipe: (pipe.multi(), pipe.incr(f"{tag}n")), f"{tag}n"), [4])

popped = []
waiter = threading.Thread(target=lambda: popped.append(connect().blpop([f"{tag}none", f"{tag}l"], timeout=120)))
waiter.start()
time.sleep(0.05)
check(r.rpush(f"{tag}l", "x"), 1)
waiter.join()
check(popped, [(f"{tag}l", "x")])
check(r.blpop([f"{tag}l"], timeout=1), None)

listener = r.pubsub()
listener.subscribe(f"{tag}channel")
listener.psubscribe(f"{tag}p*")
messages = listener.listen()
check([next(messages)["type"] for _ in range(2)], ["subscribe", "psubscribe"])
connect().publish(f"{tag}channel", "one")
check(next(messages)["data"], "one")
connect().publish(f"{tag}parrot", "two")
check((lambda m: (m["type"], m["channel"], m["data"]))(next(messages)), ("pmessage", f"{tag}parrot", "two"))
listener.unsubscribe()
listener.punsubscribe()
check([next(messages)["type"] for _ in range(2)], ["unsubscribe", "punsubscribe"])
listener.close()

# EVALSHA of a script that nobody has; the library, or this, loads it and asks again.
text = f"return {{KEYS[1], redis.call('INCRBY', KEYS[1], ARGV[1])}} -- {tag}"
if clustered:
    try:
        r.evalsha(hashlib.sha1(text.encode()).hexdigest(), 1, f"{tag}n", 10)
        raise AssertionError("EVALSHA of a script that nobody has")
    except redis.exceptions.NoScriptError:
        check(r.evalsha(r.script_load(text), 1, f"{tag}n", 10), [f"{tag}n", 14])
else:
    check(r.register_script(text)(keys=[f"{tag}n"], args=[10]), [f"{tag}n", 14])
print("ok")
