// Tasks that share one connection wait for a lock with NOTIFY, with ioredis and node-redis through lockproxy:
// node notify.js HOST PORT.
const assert = require('assert');
const Redis = require('ioredis');
const { createClient } = require('redis');

const [host, port] = [process.argv[2], Number(process.argv[3])];

// contend has tasks count with a read and a write each, under the lock alone. call sends a command over the
// one connection, subscribe has hear called with each message on a channel, once it is subscribed.
async function contend(name, call, subscribe) {
  const key = `{${name}${port}-${process.pid}}`;
  let counter = 0;
  const task = async (n) => {
    const [token, channel] = [`${name}-${n}`, `${key}:${n}`];
    let hear;
    await subscribe(channel, (text) => hear(text));
    for (let i = 0; i < 5; i++) {
      const told = new Promise((done) => { hear = done; });
      let grant = await call('LOCK', key, 'TOKEN', token, 'PX', '30000', 'WAIT', '60000', 'NOTIFY', channel);
      if (String(grant) === 'QUEUED') {
        const [what, lock, ...numbers] = (await told).split(' ');
        assert.deepEqual([what, lock, numbers.length], ['granted', key, 3]);
        grant = [token, ...numbers];
      }
      assert.equal(grant.length, 4);
      const before = counter;
      assert.equal(await call('PING'), 'PONG'); // others have their turn
      counter = before + 1;
      assert.equal(Number(await call('UNLOCK', key, token)), 1);
    }
  };
  await Promise.all(Array.from({ length: 8 }, (_, n) => task(n)));
  assert.equal(counter, 40);
}

async function ioredis() {
  const [r, news] = [new Redis({ host, port, connectTimeout: 120000 }), new Redis({ host, port, connectTimeout: 120000 })];
  const hearers = new Map();
  news.on('message', (channel, text) => hearers.get(channel)(text));
  await contend('io', (...args) => r.call(...args), async (channel, hear) => {
    hearers.set(channel, hear);
    await news.subscribe(channel);
  });
  await Promise.all([r, news].map((c) => c.quit()));
}

async function nodeRedis(RESP) {
  const connect = () => createClient({ socket: { host, port, connectTimeout: 120000 }, RESP }).on('error', (error) => { throw error; }).connect();
  const [r, news] = [await connect(), await connect()];
  await contend(`nr${RESP}`, (...args) => r.sendCommand(args), (channel, hear) => news.subscribe(channel, hear));
  await Promise.all([r, news].map((c) => c.close()));
}

(async () => {
  await ioredis();
  await nodeRedis(2);
  await nodeRedis(3);
  console.log('ok');
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
