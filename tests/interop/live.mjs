// Follows a live query with Apollo Client, urql, Relay and EventSource, set up as docs/frontend.md says:
// node live.mjs URL TOKEN SKU TITLES [CHROMIUM]. Prints each of the titles, which have commas between them, when all clients have
// shown it. In place of the last one, prints the titles that each has shown. After each of the others, the clients leave the
// page and come back to it, so their stores have it already.
import { gql } from '@apollo/client';
import { EventSource } from 'eventsource';
import { createClient } from 'graphql-ws';
import { chromium } from 'playwright-core';
import relay from 'relay-runtime';
import { pipe, subscribe } from 'wonka';
import WebSocket from 'ws';
import { apolloClient } from './live/apollo.mjs';
import { follow } from './live/eventsource.mjs';
import { relayEnvironment } from './live/relay.mjs';
import { urqlClient } from './live/urql.mjs';

const [url, token, sku, list, browserPath] = process.argv.slice(2);
const titles = list.split(',');
const text = 'query Title($sku: String!) @live { product(sku: $sku) { id title } }';
const variables = { sku };
const headers = { Authorization: `Bearer ${token}` };
const socket = createClient({ url: url.replace(/^http/, 'ws'), webSocketImpl: WebSocket, connectionParams: headers });
const at = { url, headers, socket };
globalThis.EventSource = EventSource;

const shown = {};
const waiting = [];
// What one client shows. Anything but a new title is a failure.
function shower(name) {
  shown[name] = [];
  const show = {};
  waiting.push(Object.fromEntries(titles.map((title) => [title, new Promise((resolve) => { show[title] = resolve; })])));
  return (data) => {
    if (!data?.product) return;
    const { title } = data.product;
    if (shown[name].at(-1) !== title) shown[name].push(title);
    show[title]?.();
  };
}
const failed = (error) => {
  console.error(error);
  process.exit(1);
};

// Each begins to follow, and returns what ends it.
const follows = [];

const showInApollo = shower('Apollo Client');
const apollo = apolloClient(at);
follows.push(() => {
  const watched = apollo.watchQuery({ query: gql(text), variables, fetchPolicy: 'cache-and-network' });
  const subscription = watched.subscribe({ next: ({ data }) => showInApollo(data), error: failed });
  return () => subscription.unsubscribe();
});

const showInUrql = shower('urql');
const urql = urqlClient(at);
follows.push(() => {
  const source = urql.query(text, variables);
  return pipe(source, subscribe(({ data, error }) => (error ? failed(error) : showInUrql(data)))).unsubscribe;
});

const argument = { defaultValue: null, kind: 'LocalArgument', name: 'sku' };
const scalar = (name) => ({ alias: null, args: null, kind: 'ScalarField', name, storageKey: null });
const selections = [{
  alias: null, args: [{ kind: 'Variable', name: 'sku', variableName: 'sku' }], concreteType: 'Product', kind: 'LinkedField',
  name: 'product', plural: false, selections: [scalar('id'), scalar('title')], storageKey: null,
}];
// What Relay's compiler makes of the text.
const request = {
  kind: 'Request',
  fragment: { argumentDefinitions: [argument], kind: 'Fragment', metadata: null, name: 'Title', selections, type: 'Query', abstractKey: null },
  operation: { argumentDefinitions: [argument], kind: 'Operation', name: 'Title', selections },
  params: { cacheID: 'title', id: null, metadata: {}, name: 'Title', operationKind: 'query', text },
};
const showInRelay = shower('Relay');
const environment = relayEnvironment(at);
follows.push(() => {
  const subscription = relay.fetchQuery(environment, request, variables).subscribe({ next: showInRelay, error: failed });
  return () => subscription.unsubscribe();
});

const showInStream = shower('EventSource');
await follow({ url, token, query: text, variables, onAnswer: ({ data }) => showInStream(data) });

let browser;
if (browserPath) {
  const showInBrowser = shower('Chromium');
  browser = await chromium.launch({ executablePath: browserPath, args: ['--no-sandbox'] });
  const page = await browser.newPage();
  await page.goto(url.replace('/graphql', '/livez'));
  await page.exposeFunction('onAnswer', ({ data }) => showInBrowser(data));
  await page.evaluate(`(${follow})({ ...${JSON.stringify({ url, token, query: text, variables })}, onAnswer: window.onAnswer }).then(() => true)`);
}

setTimeout(() => failed(new Error(`too late: ${JSON.stringify(shown)}`)), 60_000);
let ends = follows.map((begin) => begin());
for (const title of titles) {
  await Promise.all(waiting.map((shows) => shows[title]));
  for (const end of ends) end();
  ends = title === titles.at(-1) ? [] : follows.map((begin) => begin());
  console.log(title === titles.at(-1) ? JSON.stringify(shown) : title);
}
await browser?.close();
process.exit(0);
