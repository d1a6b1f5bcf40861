// Runs operations with the unmodified clients of graphql-ws and graphql-sse: node clients.mjs HTTP_URL TOKEN DISCUSSION.
// Prints what they receive as JSON.
import { createClient as createSse } from 'graphql-sse';
import { createClient as createWs } from 'graphql-ws';
import WebSocket from 'ws';

const [url, token, discussion] = process.argv.slice(2);
const socketUrl = url.replace(/^http/, 'ws');
const POSTED = 'subscription ($id: ID!) { commentPosted(discussionId: $id) { text author { name } } }';
const POST = 'mutation ($input: PostCommentInput!) { postComment(input: $input) { __typename } }';
const COUNT = 'query ($id: ID!) @live { node(id: $id) { ... on Discussion { commentCount } } }';
const VIEWER = '{ viewer { subject } }';
const variables = { id: discussion };

const sockets = (given, more = {}) =>
  createWs({
    url: socketUrl,
    webSocketImpl: WebSocket,
    connectionParams: given && { Authorization: `Bearer ${given}` },
    retryAttempts: 0,
    ...more,
  });
const streams = (given) => createSse({ url, headers: given ? { Authorization: `Bearer ${given}` } : {}, retryAttempts: 0 });

async function first(client, operation) {
  for await (const result of client.iterate(operation)) {
    return result;
  }
  return null;
}

// The error with which the client fails, or the codes of the errors in its answer.
async function failure(client, operation) {
  try {
    const { errors } = await first(client, operation);
    return { codes: errors.map(({ extensions }) => extensions.code) };
  } catch (error) {
    if (Array.isArray(error)) return { codes: error.map(({ extensions }) => extensions.code) };
    return error.code ? { code: error.code, reason: error.reason } : { status: error.response?.status };
  }
}

async function subscribed(client) {
  const found = [];
  let live;
  const isLive = new Promise((resolve) => {
    live = resolve;
  });
  const ended = new Promise((resolve, reject) => {
    const stop = client.subscribe(
      { query: POSTED, variables },
      {
        next: ({ data }) => {
          // `begin` is posted until it arrives, because neither client signals when a subscription is live.
          live();
          if (data.commentPosted.text !== 'begin') found.push(`${data.commentPosted.text} by ${data.commentPosted.author.name}`);
          if (found.length === 3) {
            stop();
            resolve();
          }
        },
        error: reject,
        complete: resolve,
      },
    );
  });
  return { found, isLive, ended };
}

// The counts that a live query shows until it shows enough, and when it has shown the first.
function counted(client, enough) {
  let live;
  const isLive = new Promise((resolve) => {
    live = resolve;
  });
  const follow = async () => {
    const found = [];
    for await (const { data } of client.iterate({ query: COUNT, variables })) {
      found.push(data.node.commentCount);
      live();
      if (found.at(-1) >= enough) break;
    }
    return found;
  };
  return { isLive, ended: follow() };
}

const seen = {};
const [ws, sse] = [sockets(token), streams(token)];
seen.queries = [await first(ws, { query: VIEWER }), await first(sse, { query: VIEWER })];
seen.anonymous = [await first(sockets(), { query: VIEWER }), await first(streams(), { query: VIEWER })];
seen.invalid = [await failure(ws, { query: '{ nothing }' }), await failure(sse, { query: '{ nothing }' })];
seen.unknown = [
  await failure(ws, { query: POSTED, variables: { id: 'x' } }),
  await failure(sse, { query: POSTED, variables: { id: 'x' } }),
];
seen.refused = [await failure(sockets('x'), { query: VIEWER }), await failure(streams('x'), { query: VIEWER })];

const post = (text) => first(ws, { query: POST, variables: { input: { discussionId: discussion, text } } });
// 'begin' and three others at least.
const counts = [counted(ws, 4), counted(sse, 4)];
await Promise.race([Promise.all(counts.map(({ isLive }) => isLive)), Promise.all(counts.map(({ ended }) => ended))]);
const subscribers = await Promise.all([subscribed(ws), subscribed(sse)]);
let isBegun = false;
const begun = Promise.all(subscribers.map(({ isLive }) => isLive)).then(() => {
  isBegun = true;
});
while (!isBegun) {
  await post('begin');
  await new Promise((resolve) => setTimeout(resolve, 50));
}
await begun;
for (const text of ['one', 'two', 'three']) await post(text);
await Promise.all(subscribers.map(({ ended }) => ended));
seen.received = subscribers.map(({ found }) => found);
seen.live = (await Promise.all(counts.map(({ ended }) => ended))).map((found) => found[0] === 0 && found.every((count, at) => !at || count > found[at - 1]));
console.log(JSON.stringify(seen));
await ws.dispose();
sse.dispose();
process.exit(0);
