// Everyday use of the cluster clients of ioredis and node-redis through lockproxy: node clustered.js HOST PORT.
const assert = require('assert');
const Redis = require('ioredis');
const { createCluster } = require('redis');

// everyday runs with call(key, ...args), which sends one command to the node of key.
async function everyday(prefix, call) {
  const k = (name) => `${prefix}:${name}`;
  for (let i = 0; i < 100; i++) {
    assert.equal(await call(k(i), 'SET', k(i), `${i}`), 'OK');
    assert.equal(await call(k(i), 'GET', k(i)), `${i}`);
  }
  const tagged = (name) => `{${prefix}}:${name}`;
  assert.equal(await call(tagged('a'), 'MSET', tagged('a'), '1', tagged('b'), '2'), 'OK');
  assert.deepEqual(await call(tagged('a'), 'MGET', tagged('a'), tagged('none'), tagged('b')), ['1', null, '2']);
  assert.equal(await call(k('e'), 'EVAL', 'return ARGV[1]', '1', k('e'), 'x'), 'x');
  const many = await Promise.all(Array.from({ length: 300 }, (_, i) => call(k(`p${i}`), 'SET', k(`p${i}`), `${i}`).then(() => call(k(`p${i}`), 'GET', k(`p${i}`)))));
  assert.deepEqual(many, Array.from({ length: 300 }, (_, i) => `${i}`));

  const [token, fence, ttl, count] = await call(k('job'), 'LOCK', k('job'), 'PX', '100000');
  assert.ok(fence > 0 && ttl > 0 && ttl <= 100000);
  assert.equal(count, 1);
  assert.equal(await call(k('job'), 'LOCK', k('job')), null);
  assert.equal(await call(k('job'), 'UNLOCK', k('job'), token), 1);
}

async function main() {
  const [host, port] = [process.argv[2], Number(process.argv[3])];

  for (const scaleReads of ['master', 'slave']) {
    const io = new Redis.Cluster([{ host, port }], { scaleReads, slotsRefreshTimeout: 120000, redisOptions: { connectTimeout: 120000 } });
    // ioredis knows the keys of a custom command if it is defined by its words.
    await everyday(`ioc${port}${scaleReads}`, (key, name, ...args) => {
      const command = new Redis.Command(name.toLowerCase(), args, { replyEncoding: 'utf8' });
      if (name === 'LOCK' || name === 'UNLOCK') command.slots = [require('cluster-key-slot')(key)];
      return io.sendCommand(command);
    });
    assert.deepEqual(await io.hset(`ioc${port}:h`, { f: 'v', g: 'w' }) >= 0, true);
    assert.deepEqual(await io.hgetall(`ioc${port}:h`), { f: 'v', g: 'w' });
    assert.ok(io.nodes('master').length > 0);
    await io.quit();
  }

  for (const RESP of [2, 3]) {
    for (const useReplicas of [false, true]) {
      const c = createCluster({ rootNodes: [{ socket: { host, port, connectTimeout: 120000 } }], defaults: { RESP, socket: { connectTimeout: 120000 } }, useReplicas });
      await c.connect();
      await everyday(`nrc${port}${RESP}${useReplicas}`, (key, ...args) => c.sendCommand(key, args[0] === 'GET', args));
      await c.hSet(`nrc${port}:h`, { f: 'v', g: 'w' });
      assert.deepEqual({ ...(await c.hGetAll(`nrc${port}:h`)) }, { f: 'v', g: 'w' });
      await c.close();
    }
  }
  console.log('ok');
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
