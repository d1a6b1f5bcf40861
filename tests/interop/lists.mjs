// Follows a live list in two lengths with Apollo Client and graphcache, set up as docs/frontend.md says:
// node lists.mjs URL TOKEN TITLE. Prints a line when all of them show their rows. When the row with the title comes first, prints
// the rows that each has shown last, before it and with it.
import { ApolloClient, gql, InMemoryCache } from '@apollo/client';
import { GraphQLWsLink } from '@apollo/client/link/subscriptions';
import { relayStylePagination } from '@apollo/client/utilities';
import { Client, subscriptionExchange } from '@urql/core';
import { cacheExchange } from '@urql/exchange-graphcache';
import { createClient } from 'graphql-ws';
import { pipe, subscribe } from 'wonka';
import WebSocket from 'ws';

const [url, token, title] = process.argv.slice(2);
const text = `query Titles($first: Int!) @live {
  products(first: $first, sort: TITLE_ASC) { edges { cursor node { __typename id title } } pageInfo { hasNextPage endCursor } }
}`;
const connectionParams = { Authorization: `Bearer ${token}` };
const socket = createClient({ url: url.replace(/^http/, 'ws'), webSocketImpl: WebSocket, connectionParams });

const fields = { products: relayStylePagination(['filter', 'sort', 'first']) };
const apollo = new ApolloClient({
  link: new GraphQLWsLink(socket),
  cache: new InMemoryCache({ typePolicies: { Query: { fields } } }),
});
const embedded = ['PageInfo', 'ProductConnection', 'ProductEdge'];
const graphcache = new Client({
  url,
  exchanges: [
    cacheExchange({ keys: Object.fromEntries(embedded.map((name) => [name, () => null])) }),
    subscriptionExchange({
      isSubscriptionOperation: () => true,
      forwardSubscription: ({ query, variables }) => ({
        subscribe: (sink) => ({ unsubscribe: socket.subscribe({ query, variables }, sink) }),
      }),
    }),
  ],
});

// Each shows a list of this length, and returns what ends it.
const follows = {
  'Apollo Client': (first, show) => {
    const watched = apollo.watchQuery({ query: gql(text), variables: { first }, fetchPolicy: 'cache-and-network' });
    const subscription = watched.subscribe({ next: ({ data }) => show(data) });
    return () => subscription.unsubscribe();
  },
  graphcache: (first, show) => {
    const source = graphcache.query(text, { first }, { requestPolicy: 'cache-and-network' });
    return pipe(source, subscribe(({ data }) => show(data))).unsubscribe;
  },
};

setTimeout(() => {
  console.error(`too late: ${JSON.stringify(shown)}`);
  process.exit(1);
}, 60_000);
const shown = {};
const until = async (isSo) => {
  while (!isSo()) await new Promise((resolve) => setTimeout(resolve, 20));
};
for (const [name, follow] of Object.entries(follows)) {
  const rows = (shown[name] = { long: [], short: [] });
  const showAs = (key) => (data) => {
    if (data?.products) rows[key] = data.products.edges.map(({ node }) => node.title);
  };
  const end = follow(2, showAs('long'));
  await until(() => rows.long.length === 2);
  end();
  // The user asks for more.
  follow(3, showAs('long'));
  await until(() => rows.long.length === 3);
  follow(1, showAs('short'));
  await until(() => rows.short.length === 1);
}
const before = structuredClone(shown);
console.log('all show their rows');
await until(() => Object.values(shown).every((rows) => [rows.long, rows.short].every(([first]) => first === title)));
console.log(JSON.stringify({ before, after: shown }));
process.exit(0);
