# redis-py's Lock, straight at Redis, and LOCK through the proxy, for the same lock.
import sys
import threading

import redis

proxy = redis.Redis(sys.argv[1], int(sys.argv[2]), decode_responses=True)
straight = redis.Redis(sys.argv[3], int(sys.argv[4]), decode_responses=True)
name = "app:py"

# Held by lockproxy means held for redis-py.
token = proxy.execute_command("LOCK", name, "PX", 60000)[0]
theirs = straight.lock(name, timeout=60, thread_local=False)
assert not theirs.acquire(blocking=False)
assert theirs.locked()
assert proxy.execute_command("UNLOCK", name, token) == 1

# Held by redis-py means held for lockproxy; its hold can be seen, and not be freed with another token.
assert theirs.acquire(blocking=False)
assert proxy.execute_command("LOCK", name) is None
assert proxy.execute_command("UNLOCK", name, token) is None
assert proxy.execute_command("UNLOCK", name, theirs.local.token.decode()) is None
info = proxy.execute_command("LOCKCTL", "INFO", name)
info = dict(zip(info[::2], info[1::2]))
assert info["state"] == "write" and len(info["holders"]) == 1, info
theirs.extend(60, replace_ttl=True)

# Each waits for the other.
got = []
waiter = threading.Thread(target=lambda: got.append(proxy.execute_command("LOCK", name, "WAIT", 120000)))
waiter.start()
waiter.join(0.2)
assert not got
theirs.release()
waiter.join()
token = got[0][0]
waiter = threading.Thread(target=lambda: got.append(theirs.acquire(blocking_timeout=120)))
waiter.start()
waiter.join(0.2)
assert len(got) == 1
assert proxy.execute_command("UNLOCK", name, token) == 1
waiter.join()
assert got[1] is True
theirs.release()

# What the form has no room for is refused by name.
for words in (["RLOCK", name], ["LOCK", name, "REENTRANT"], ["LOCK", name, "META", "x"]):
    try:
        proxy.execute_command(*words)
        raise SystemExit("not refused: %s" % words)
    except redis.ResponseError as e:
        assert "lock-compat" in str(e), e
print("ok")
