// Subscribes with the unmodified clients eventsource and graphql-ws, through a proxy that cuts their connections at
// random and connects to each of two gateways in turn: node resuming.mjs URL URL TOKEN DISCUSSION HIDDEN COUNT CUTS SECONDS.
// Prints a line when all are connected, and one when both have got a comment of the discussion that becomes hidden. Then
// prints what they receive as JSON when each has got this many comments of the first discussion, and has been told that the
// other one is gone.
import { EventSource } from 'eventsource';
import { createClient } from 'graphql-ws';
import net from 'node:net';
import WebSocket from 'ws';

const [first, second, token, discussion, hidden, count, cuts, seconds] = process.argv.slice(2);
const ports = [first, second].map((url) => Number(new URL(url).port));
const query = 'subscription ($id: ID!) { commentPosted(discussionId: $id) { text } }';
const seen = { cuts: 0, streams: [], sockets: [], hidden: { streams: [], sockets: [], codes: [] } };
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

// Follows a discussion with EventSource until `onEvent` returns true. A ticket replaces the token, because it sends no headers.
async function streaming(id, onEvent) {
  const answer = await fetch(`${first}/ticket`, { method: 'POST', headers: { Authorization: `Bearer ${token}` } });
  const { ticket, eventId } = await answer.json();
  const extensions = JSON.stringify({ lastEventId: eventId });
  const parameters = new URLSearchParams({ query, variables: JSON.stringify({ id }), extensions, ticket });
  const source = new EventSource(`${url}?${parameters}`);
  const ended = new Promise((resolve, reject) => {
    source.addEventListener('next', ({ data }) => {
      // After the event, the stream ends. The client comes again by itself.
      if (!isOutage(JSON.parse(data).errors) && onEvent(JSON.parse(data))) resolve(source.close());
    });
    source.addEventListener('error', (event) => {
      if (source.readyState === EventSource.CLOSED) reject(new Error(`the stream ended: ${event.code} ${event.message}`));
    });
  });
  await new Promise((resolve) => source.addEventListener('open', resolve, { once: true }));
  return { ended };
}

const isOutage = (errors) => errors?.some(({ extensions: { code } }) => ['UNAVAILABLE', 'TIMEOUT'].includes(code));

let acknowledgedId;
const client = createClient({
  url: url.replace(/^http/, 'ws'),
  webSocketImpl: WebSocket,
  connectionParams: { Authorization: `Bearer ${token}`, eventIds: true },
  retryAttempts: Infinity,
  retryWait: () => new Promise((resolve) => setTimeout(resolve, 50)),
  shouldRetry: () => true,
  on: {
    connected: (_socket, acknowledged) => {
      acknowledgedId ??= acknowledged.eventId;
      for (const payload of payloads) payload.extensions.lastEventId ??= acknowledgedId;
    },
  },
});
const payloads = [];
// Follows a discussion with graphql-ws until `onEvent` returns true.
function socket(id, onEvent) {
  // The client sends this object again whenever it has connected again.
  const payload = { query, variables: { id }, extensions: {} };
  payloads.push(payload);
  return new Promise((resolve, reject) => {
    const subscribe = () => client.subscribe(payload, {
      next: (event) => {
        payload.extensions.lastEventId = event.extensions.eventId;
        if (onEvent(event)) resolve();
      },
      error: (errors) => {
        if (Array.isArray(errors) && isOutage(errors)) setTimeout(subscribe, 50);
        else if (Array.isArray(errors) && onEvent({ errors })) resolve();
        else reject(errors);
      },
      complete: () => reject(new Error('the subscription ended')),
    });
    subscribe();
  });
}

const shows = (texts) => ({ data, errors }) => {
  if (errors) throw new Error(JSON.stringify(errors));
  return texts.push(data.commentPosted.text) === Number(count);
};
let showing;
const shown = new Promise((resolve) => { showing = resolve; });
const showsUntilHidden = (texts) => ({ data, errors }) => {
  if (!errors) {
    texts.push(data.commentPosted.text);
    if (seen.hidden.streams.length && seen.hidden.sockets.length) showing();
  } else seen.hidden.codes.push(errors[0].extensions.code);
  return Boolean(errors);
};
const opening = Promise.all([
  streaming(discussion, shows(seen.streams)),
  streaming(hidden, showsUntilHidden(seen.hidden.streams)),
]);
const socketed = [socket(discussion, shows(seen.sockets)), socket(hidden, showsUntilHidden(seen.hidden.sockets))];

// All are connected as soon as the streams have sent their headers and the socket is acknowledged.
const streams = await opening;
await new Promise((resolve) => {
  const waiting = setInterval(() => {
    if (acknowledgedId) resolve(clearInterval(waiting));
  }, 10);
});
console.log('subscribed');
const late = new Promise((_resolve, reject) => {
  setTimeout(() => reject(new Error(`some events have not come: ${JSON.stringify(seen)}`)), Number(seconds) * 1000);
});
await Promise.race([shown, late]);
console.log('shown');
await Promise.race([Promise.all([...streams.map(({ ended }) => ended), ...socketed]), late]);
clearInterval(cutting);
console.log(JSON.stringify(seen));
process.exit(0);
