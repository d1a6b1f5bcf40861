// Runs subscriptions and a live query with GraphiQL's own fetcher: node explorer.mjs HTTP_URL TOKEN DISCUSSION.
// Prints what it shows as JSON.
import { parse } from 'graphql';
import WebSocket from 'ws';

const [url, token, discussion] = process.argv.slice(2);
globalThis.WebSocket = WebSocket;
globalThis.window = { location: { href: url } };
const { createFetcher } = await import('../../gateway/pages/graphiql/src/fetcher.js');

const fetcher = createFetcher(url);
const TEXT = `
  query Who { viewer { subject } }
  mutation Post($input: PostCommentInput!) { postComment(input: $input) { __typename } }
  query Counted($id: ID!) @live { node(id: $id) { ... on Discussion { commentCount } } }
  subscription Posted($id: ID!) { commentPosted(discussionId: $id) { text } }
`;
const ask = (operationName, variables, given = token) =>
  fetcher(
    { query: TEXT, operationName, variables },
    { documentAST: parse(TEXT), headers: given ? { authorization: `Bearer ${given}` } : {} },
  );

async function first(results) {
  for await (const result of results) return result;
  return null;
}

const seen = {};
seen.who = await ask('Who');
const events = await ask('Posted', { id: discussion });
const arriving = events.next();
let hasArrived = false;
arriving.then(() => {
  hasArrived = true;
});
while (!hasArrived) {
  await ask('Post', { input: { discussionId: discussion, text: 'Hello' } });
  await new Promise((resolve) => setTimeout(resolve, 50));
}
seen.received = (await arriving).value;
// GraphiQL's stop button must end the subscription while it waits for the next event.
while (JSON.stringify((await Promise.race([events.next(), new Promise((resolve) => setTimeout(resolve, 500))])) ?? 0) !== '0');
await events.return();
seen.ended = (await events.next()).done;
const counts = await ask('Counted', { id: discussion });
const before = (await counts.next()).value.data.node.commentCount;
await ask('Post', { input: { discussionId: discussion, text: 'Again' } });
seen.live = (await counts.next()).value.data.node.commentCount - before;
await counts.return();
seen.unknown = await first(await ask('Posted', { id: 'x' }));
seen.refused = await first(await ask('Posted', { id: discussion }, 'x'));
console.log(JSON.stringify(seen));
process.exit(0);
