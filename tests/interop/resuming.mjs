// Subscribes with the unmodified clients eventsource and graphql-ws, through a proxy that cuts their connections at
// random and connects to each of two gateways in turn: node resuming.mjs URL URL TOKEN DISCUSSION COUNT CUTS SECONDS.
// Prints what they receive as JSON when each has got this many comments.
import { EventSource } from 'eventsource';
import { createClient } from 'graphql-ws';
import net from 'node:net';
import WebSocket from 'ws';

const [first, second, token, discussion, count, cuts, seconds] = process.argv.slice(2);
const ports = [first, second].map((url) => Number(new URL(url).port));
const query = 'subscription ($id: ID!) { commentPosted(discussionId: $id) { text } }';
const variables = { id: discussion };
const seen = { cuts: 0, streams: [], sockets: [] };
const open = new Set();
let turn = 0;

const proxy = net.createServer((client) => {
  const gateway = net.connect(ports[turn++ % 2], '127.0.0.1');
  open.add(client);
  const end = () => {
    open.delete(client);
    client.destroy();
    gateway.destroy();
  };
  for (const socket of [client, gateway]) socket.on('error', end).on('close', end);
  client.pipe(gateway);
  gateway.pipe(client);
});
await new Promise((resolve) => proxy.listen(0, '127.0.0.1', resolve));
const url = `http://127.0.0.1:${proxy.address().port}/graphql`;

const cutting = setInterval(() => {
  const one = [...open][Math.floor(Math.random() * open.size)];
  if (one && seen.cuts < Number(cuts)) {
    seen.cuts += 1;
    one.destroy();
  }
}, 100);

// A ticket replaces the token, because EventSource sends no headers.
const answer = await fetch(`${first}/ticket`, { method: 'POST', headers: { Authorization: `Bearer ${token}` } });
const { ticket, eventId } = await answer.json();
const extensions = JSON.stringify({ lastEventId: eventId });
const parameters = new URLSearchParams({ query, variables: JSON.stringify(variables), extensions, ticket });
const source = new EventSource(`${url}?${parameters}`);
const streamed = new Promise((resolve, reject) => {
  source.addEventListener('next', ({ data }) => {
    seen.streams.push(JSON.parse(data).data.commentPosted.text);
    if (seen.streams.length === Number(count)) resolve();
  });
  source.addEventListener('error', (event) => {
    if (source.readyState === EventSource.CLOSED) reject(new Error(`the stream ended: ${event.code} ${event.message}`));
  });
});

// The client sends this object again whenever it has connected again.
const payload = { query, variables, extensions: {} };
const client = createClient({
  url: url.replace(/^http/, 'ws'),
  webSocketImpl: WebSocket,
  connectionParams: { Authorization: `Bearer ${token}`, eventIds: true },
  retryAttempts: Infinity,
  retryWait: () => new Promise((resolve) => setTimeout(resolve, 50)),
  shouldRetry: () => true,
  on: {
    connected: (_socket, acknowledged) => {
      payload.extensions.lastEventId ??= acknowledged.eventId;
    },
  },
});
const socketed = new Promise((resolve, reject) => {
  client.subscribe(payload, {
    next: ({ data, extensions }) => {
      payload.extensions.lastEventId = extensions.eventId;
      seen.sockets.push(data.commentPosted.text);
      if (seen.sockets.length === Number(count)) resolve();
    },
    error: reject,
    complete: () => reject(new Error('the subscription ended')),
  });
});

// Both are connected as soon as the first has sent its headers and the other is acknowledged.
await new Promise((resolve) => source.addEventListener('open', resolve, { once: true }));
await new Promise((resolve) => {
  const waiting = setInterval(() => {
    if (payload.extensions.lastEventId) resolve(clearInterval(waiting));
  }, 10);
});
console.log('subscribed');
const late = new Promise((_resolve, reject) => {
  setTimeout(() => reject(new Error(`some events have not come: ${JSON.stringify(seen)}`)), Number(seconds) * 1000);
});
await Promise.race([Promise.all([streamed, socketed]), late]);
clearInterval(cutting);
console.log(JSON.stringify(seen));
process.exit(0);
