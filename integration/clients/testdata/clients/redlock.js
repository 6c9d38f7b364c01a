// node-redlock over one Redis or a cluster, and LOCK through the proxy, for the same locks:
// node redlock.js HOST PORT ADDR single|cluster.
const assert = require('assert');
const Redis = require('ioredis');
const Redlock = require('redlock');

const [host, port] = [process.argv[2], Number(process.argv[3])];
const [theirHost, theirPort] = process.argv[4].split(':');
const clustered = process.argv[5] === 'cluster';

const proxy = new Redis({ host, port, connectTimeout: 120000 });
const waiting = new Redis({ host, port, connectTimeout: 120000 });
const straight = clustered ? new Redis.Cluster([{ host: theirHost, port: Number(theirPort) }], { slotsRefreshTimeout: 120000, redisOptions: { connectTimeout: 120000 } }) : new Redis({ host: theirHost, port: Number(theirPort), connectTimeout: 120000 });
const once = new Redlock([straight], { retryCount: 0 });
const patient = new Redlock([straight], { retryCount: 2000, retryDelay: 10, retryJitter: 5 });
const name = `app:node-${process.pid}`;

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const refused = (promise) => assert.rejects(promise, Redlock.LockError);

// pending fails if the promise is done before its time.
async function pending(promise) {
  assert.equal(await Promise.race([promise.then(() => 'done'), sleep(200).then(() => 'pending')]), 'pending');
}

async function main() {
  // Held by lockproxy means held for node-redlock; an attempt that fails frees nothing.
  let [token] = await proxy.call('LOCK', name, 'PX', '60000');
  await refused(once.lock(name, 60000));
  assert.equal((await proxy.call('LOCKCTL', 'CHECK', name, token)).length, 3);
  assert.equal(await proxy.call('UNLOCK', name, token), 1);
  assert.equal(await proxy.call('UNLOCK', name, token), null);

  // Held by node-redlock means held for lockproxy; its hold can be seen, and not be freed with another token.
  let theirs = await once.lock(name, 60000);
  assert.equal(await proxy.call('LOCK', name), null);
  assert.equal(await proxy.call('UNLOCK', name, token), null);
  const words = await proxy.call('LOCKCTL', 'INFO', name);
  assert.equal(words[words.indexOf('state') + 1], 'write');
  assert.equal(words[words.indexOf('holders') + 1].length, 1);

  // What it extends is held for longer, and it frees a lock once.
  theirs = await theirs.extend(120000);
  const left = await straight.pttl(name);
  assert.ok(left > 60000 && left <= 120000, `${left} ms`);
  await theirs.unlock();
  await refused(theirs.unlock());

  // It neither extends nor frees what lockproxy holds meanwhile.
  theirs = await once.lock(name, 60000);
  assert.equal(await proxy.call('LOCKCTL', 'BREAK', name), 1);
  [token] = await proxy.call('LOCK', name, 'PX', '60000');
  await refused(theirs.extend(60000));
  await refused(theirs.unlock());
  assert.ok(await proxy.call('RENEW', name, token, 'PX', '90000') > 60000);
  assert.equal(await proxy.call('UNLOCK', name, token), 1);

  // Each waits for the other.
  theirs = await once.lock(name, 60000);
  const ours = waiting.call('LOCK', name, 'WAIT', '200000');
  await pending(ours);
  await theirs.unlock();
  [token] = await ours;
  const next = patient.lock(name, 60000);
  await pending(next);
  assert.equal(await proxy.call('UNLOCK', name, token), 1);
  await (await next).unlock();

  // Its lock on several keys at once, and MLOCK.
  const both = ['a', 'b'].map((end) => `app:{node-${process.pid}}:${end}`);
  theirs = await once.lock(both, 60000);
  assert.equal(await proxy.call('MLOCK', '2', ...both), null);
  assert.equal(await proxy.call('LOCK', both[1]), null);
  await theirs.unlock();
  [token] = await proxy.call('MLOCK', '2', ...both, 'PX', '60000');
  await refused(once.lock(both, 60000));
  await refused(once.lock(both[1], 60000));
  assert.equal(await proxy.call('MUNLOCK', '2', ...both, token), 2);

  // In turn: what each reads and writes back under the lock adds up.
  const [counter, clients, rounds] = [`counter-of-${name}`, 3, 20];
  const count = async () => straight.set(counter, Number(await straight.get(counter)) + 1, 'PX', 60000);
  const libraries = Array.from({ length: clients }, async () => {
    for (let i = 0; i < rounds; i++) {
      const lock = await patient.lock(name, 60000);
      await count();
      await lock.unlock();
    }
  });
  const verbs = Array.from({ length: clients }, async () => {
    const connection = new Redis({ host, port, connectTimeout: 120000 });
    for (let i = 0; i < rounds; i++) {
      const [mine] = await connection.call('LOCK', name, 'PX', '60000', 'WAIT', '60000');
      await count();
      assert.equal(await connection.call('UNLOCK', name, mine), 1);
    }
    await connection.quit();
  });
  await Promise.all([...libraries, ...verbs]);
  assert.equal(Number(await straight.get(counter)), 2 * clients * rounds);
  assert.equal(await straight.exists(name), 0);

  await Promise.all([proxy, waiting, straight].map((connection) => connection.quit()));
  console.log('ok');
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
