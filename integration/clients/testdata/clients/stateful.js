// Transactions, a blocking pop, a subscription and a script with ioredis and node-redis through lockproxy:
// node stateful.js HOST PORT single|cluster.
const assert = require('assert');
const slotOf = require('cluster-key-slot');
const Redis = require('ioredis');
const { createClient, createCluster, defineScript } = require('redis');

const [host, port, clustered] = [process.argv[2], Number(process.argv[3]), process.argv[4] === 'cluster'];
const pause = () => new Promise((done) => setTimeout(done, 50));
const script = (tag) => `return redis.call('INCRBY', KEYS[1], ARGV[1]) -- ${tag}`;

async function ioredis() {
  const k = `{io${port}-${process.pid}}:`;
  const connect = () => (clustered ? new Redis.Cluster([{ host, port }], { slotsRefreshTimeout: 120000, redisOptions: { connectTimeout: 120000 } }) : new Redis({ host, port, connectTimeout: 120000 }));
  const [r, other, listener] = [connect(), connect(), connect()];
  assert.deepEqual(await r.multi().set(`${k}n`, 1).incr(`${k}n`).get(`${k}n`).exec(), [[null, 'OK'], [null, 2], [null, '2']]);
  await r.watch(`${k}n`);
  assert.equal(await other.incr(`${k}n`), 3);
  assert.equal(await r.multi().incr(`${k}n`).exec(), null);
  await r.watch(`${k}n`);
  assert.deepEqual(await r.multi().incr(`${k}n`).exec(), [[null, 4]]);

  const popped = other.blpop(`${k}none`, `${k}l`, 120);
  await pause();
  assert.equal(await r.rpush(`${k}l`, 'x'), 1);
  assert.deepEqual(await popped, [`${k}l`, 'x']);

  const heard = new Promise((done) => listener.on('message', (...message) => done(message)));
  assert.equal(await listener.subscribe(`${k}channel`), 1);
  await r.publish(`${k}channel`, 'one');
  assert.deepEqual(await heard, [`${k}channel`, 'one']);
  assert.equal(await listener.unsubscribe(`${k}channel`), 0);

  // The library sends EVALSHA, and EVAL when that finds no script.
  r.defineCommand('add', { numberOfKeys: 1, lua: script(k) });
  assert.equal(await r.add(`${k}n`, 10), 14);
  assert.equal(await r.add(`${k}n`, 10), 24);
  await Promise.all([r, other, listener].map((c) => c.quit()));
}

async function nodeRedis(RESP) {
  const k = `{nr${RESP}${port}-${process.pid}}:`;
  const add = defineScript({
    SCRIPT: script(k), NUMBER_OF_KEYS: 1, FIRST_KEY_INDEX: 0,
    parseCommand(parser, key, by) { parser.pushKey(key); parser.push(`${by}`); },
    transformReply: undefined,
  });
  const connect = async () => {
    const c = clustered ? createCluster({ rootNodes: [{ socket: { host, port, connectTimeout: 120000 } }], defaults: { RESP, socket: { connectTimeout: 120000 } }, scripts: { add } })
      : createClient({ socket: { host, port, connectTimeout: 120000 }, RESP, scripts: { add } });
    return c.on('error', (error) => { throw error; }).connect();
  };
  const [r, other, listener] = [await connect(), await connect(), await connect()];
  assert.deepEqual(await r.multi().set(`${k}n`, '1').incr(`${k}n`).get(`${k}n`).exec(), ['OK', 2, '2']);
  // The cluster client leaves WATCH to the client of the key's node.
  const node = clustered ? await r.nodeClient(r.slots[slotOf(k)].master) : r;
  await node.watch(`${k}n`);
  assert.equal(await other.incr(`${k}n`), 3);
  await assert.rejects(node.multi().incr(`${k}n`).exec(), /watched keys/);
  await node.watch(`${k}n`);
  assert.deepEqual(await node.multi().incr(`${k}n`).exec(), [4]);

  const popped = other.blPop([`${k}none`, `${k}l`], 120);
  await pause();
  assert.equal(await r.rPush(`${k}l`, 'x'), 1);
  assert.deepEqual({ ...(await popped) }, { key: `${k}l`, element: 'x' });

  const kinds = [['subscribe', 'publish', 'unsubscribe'], ['sSubscribe', 'sPublish', 'sUnsubscribe']];
  // Redis has shard channels since 7.0
  const shards = clustered && parseInt(/redis_version:(\d+)/.exec(await r.sendCommand(`${k}n`, false, ['INFO', 'server']))[1], 10) >= 7;
  for (const [subscribe, publish, unsubscribe] of kinds.slice(0, shards ? 2 : 1)) {
    const heard = new Promise((done) => {
      listener[subscribe](`${k}channel`, (...message) => done(message)).then(() => r[publish](`${k}channel`, 'one'));
    });
    assert.deepEqual(await heard, ['one', `${k}channel`]);
    await listener[unsubscribe](`${k}channel`);
  }

  assert.equal(await r.add(`${k}n`, 10), 14);
  assert.equal(await r.add(`${k}n`, 10), 24);
  await assert.rejects(r.sendCommand(...(clustered ? [`${k}n`, false] : []), ['EVALSHA', '0'.repeat(40), '1', `${k}n`]), /NOSCRIPT/);
  await Promise.all([r, other, listener].map((c) => c.close()));
}

async function main() {
  await ioredis();
  for (const RESP of [2, 3]) await nodeRedis(RESP);
  console.log('ok');
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
