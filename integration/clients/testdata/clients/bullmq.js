// A BullMQ queue of 1,000 jobs through lockproxy in front of a cluster: node bullmq.js HOST PORT single|cluster.
// Every 20th job fails at its first attempt, every 100th at the first two; one job is delayed. All keys of a queue have
// to lie in one slot, for BullMQ's scripts use several: so its prefix is a hash tag.
const assert = require('assert');
const Redis = require('ioredis');
const { Queue, QueueEvents, Worker } = require('bullmq');

const [host, port, clustered] = [process.argv[2], Number(process.argv[3]), process.argv[4] === 'cluster'];
const jobs = 1000;
const delay = 1500;

const connect = () => (clustered ? new Redis.Cluster([{ host, port }], { slotsRefreshTimeout: 120000, redisOptions: { connectTimeout: 120000, maxRetriesPerRequest: null } })
  : new Redis({ host, port, connectTimeout: 120000, maxRetriesPerRequest: null }));

const failures = (i) => (i % 100 === 0 ? 2 : i % 20 === 0 ? 1 : 0);

// untagged shows what the proxy, as any cluster, says to keys of several slots.
async function untagged() {
  const connection = connect();
  const queue = new Queue('plain', { connection, prefix: `bull${process.pid}` });
  await assert.rejects(queue.add('job', {}), /CROSSSLOT/);
  await queue.close();
  await connection.quit();
}

async function main() {
  await untagged();
  const connections = Array.from({ length: 4 }, connect);
  const prefix = `{bull${process.pid}}`;
  const queue = new Queue('work', { connection: connections[0], prefix });
  const events = new QueueEvents('work', { connection: connections[1], prefix });
  await events.waitUntilReady();

  const completed = new Map(); // how often an event has told of each
  const all = new Promise((done) => events.on('completed', ({ jobId }) => {
    completed.set(jobId, (completed.get(jobId) ?? 0) + 1);
    if (completed.size === jobs) done();
  }));

  const attempts = new Map();
  const finished = new Map();
  const began = Date.now();
  let delayed = 0;
  const workers = connections.slice(2).map((connection) => new Worker('work', async (job) => {
    const { i } = job.data;
    const tries = (attempts.get(i) ?? 0) + 1;
    attempts.set(i, tries);
    if (tries <= failures(i)) throw new Error(`attempt ${tries} of ${i}`);
    if (job.name === 'delayed') delayed = Date.now() - began;
    finished.set(i, (finished.get(i) ?? 0) + 1);
    return i;
  }, { connection, prefix, concurrency: 20 }));

  const plan = Array.from({ length: jobs - 1 }, (_, i) => ({ name: 'job', data: { i }, opts: { attempts: 3, backoff: { type: 'fixed', delay: 50 } } }));
  for (let i = 0; i < plan.length; i += 250) await queue.addBulk(plan.slice(i, i + 250));
  await queue.add('delayed', { i: jobs - 1 }, { delay });
  await all;

  for (let i = 0; i < jobs; i++) {
    assert.equal(finished.get(i), 1, `job ${i} was done ${finished.get(i)} times`);
    assert.equal(attempts.get(i), 1 + (i === jobs - 1 ? 0 : failures(i)), `attempts of job ${i}`);
  }
  assert.ok([...completed.values()].every((n) => n === 1));
  assert.ok(delayed >= delay - 100, `the delayed job ran after ${delayed} ms`);
  assert.deepEqual(await queue.getJobCounts('completed', 'failed', 'active', 'waiting', 'delayed'),
    { completed: jobs, failed: 0, active: 0, waiting: 0, delayed: 0 });
  const failing = plan.filter(({ data }) => failures(data.i) > 0).length;
  console.log(`${jobs} jobs, ${failing} of them after failures, in ${Date.now() - began} ms`);

  await Promise.all([...workers, events, queue].map((each) => each.close()));
  await Promise.all(connections.map((connection) => connection.quit()));
  console.log('ok');
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
