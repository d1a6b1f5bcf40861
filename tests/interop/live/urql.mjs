import { cacheExchange, Client, fetchExchange, subscriptionExchange } from '@urql/core';

// Live queries and subscriptions go over the socket of graphql-ws.
const lasts = ({ query }) =>
  query.definitions.some(
    ({ operation, directives }) => operation === 'subscription' || directives?.some(({ name }) => name.value === 'live'),
  );

export const urqlClient = ({ url, headers, socket }) =>
  new Client({
    url,
    fetchOptions: { headers },
    exchanges: [
      // Before the cache: it would answer a live query itself, and send it again after each mutation.
      subscriptionExchange({
        isSubscriptionOperation: lasts,
        forwardSubscription: ({ query, variables }) => ({
          subscribe: (sink) => ({ unsubscribe: socket.subscribe({ query, variables }, sink) }),
        }),
      }),
      cacheExchange,
      fetchExchange,
    ],
  });
