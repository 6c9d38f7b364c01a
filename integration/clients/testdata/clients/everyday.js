// Everyday use of ioredis and node-redis through lockproxy: node everyday.js HOST PORT.
const assert = require('assert');
const Redis = require('ioredis');
const { createClient } = require('redis');

// everyday runs with call(...args), which sends one command.
async function everyday(prefix, call) {
  const k = (name) => `${prefix}:${name}`;
  assert.equal(await call('SET', k('k'), 'v'), 'OK');
  assert.equal(await call('GET', k('k')), 'v');
  assert.equal(await call('GET', k('none')), null);
  assert.equal(await call('MSET', k('a'), '1', k('b'), '2', k('c'), '3'), 'OK');
  assert.deepEqual(await call('MGET', k('a'), k('b'), k('none'), k('c')), ['1', '2', null, '3']);
  assert.equal(await call('DEL', k('a'), k('b'), k('c')), 3);
  const many = await Promise.all(Array.from({ length: 500 }, (_, i) => call('SET', k(`p${i}`), `${i}`).then(() => call('GET', k(`p${i}`)))));
  assert.deepEqual(many, Array.from({ length: 500 }, (_, i) => `${i}`));

  const [token, fence, ttl, count] = await call('LOCK', k('job'), 'PX', '100000');
  assert.ok(fence > 0 && ttl > 0 && ttl <= 100000);
  assert.equal(count, 1);
  assert.equal(await call('LOCK', k('job')), null);
  assert.ok((await call('RENEW', k('job'), token, 'PX', '200000')) > 100000);
  assert.equal(await call('UNLOCK', k('job'), token), 1);
  assert.equal(await call('UNLOCK', k('job'), token), null);
  await assert.rejects(call('LOCK', k('job'), 'PX', 'no'), /LOCK key/);
}

async function main() {
  const [host, port] = [process.argv[2], Number(process.argv[3])];

  const io = new Redis({ host, port, connectTimeout: 120000 });
  await everyday('io', (...args) => io.call(...args));
  assert.deepEqual(await io.hset('io:h', { f: 'v', g: 'w' }), 2);
  assert.deepEqual(await io.hgetall('io:h'), { f: 'v', g: 'w' });
  const piped = await io.pipeline().set('io:x', 1).incr('io:x').get('io:x').exec();
  assert.deepEqual(piped, [[null, 'OK'], [null, 2], [null, '2']]);
  await io.quit();

  for (const RESP of [2, 3]) {
    const c = createClient({ socket: { host, port, connectTimeout: 120000 }, RESP });
    await c.connect();
    await everyday(`nr${RESP}`, (...args) => c.sendCommand(args));
    await c.hSet(`nr${RESP}:h`, { f: 'v', g: 'w' });
    assert.deepEqual({ ...(await c.hGetAll(`nr${RESP}:h`)) }, { f: 'v', g: 'w' });
    await c.close();
  }
  console.log('ok');
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
