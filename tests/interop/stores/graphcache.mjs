// urql with graphcache, configured as docs/frontend.md says.
import { cacheExchange } from '@urql/exchange-graphcache';
import { relayPagination } from '@urql/exchange-graphcache/extras';
import { Client, makeResult } from '@urql/core';
import { filter, map, pipe, take, toPromise } from 'wonka';

export function graphcache({ introspection }) {
  let answer;
  const { queryType, mutationType, subscriptionType, types } = introspection.__schema;
  const roots = [queryType, mutationType, subscriptionType].map((type) => type?.name);
  const embedded = types.filter(
    ({ kind, name, fields }) => kind === 'OBJECT' && !roots.includes(name) && !fields.some((field) => field.name === 'id'),
  );
  const paged = relayPagination();
  const canned = () => (operations) =>
    pipe(
      operations,
      filter(({ kind }) => kind !== 'teardown'),
      map((operation) => makeResult(operation, structuredClone(answer))),
    );
  const client = new Client({
    url: 'http://localhost/graphql',
    exchanges: [
      cacheExchange({
        schema: introspection,
        keys: { ...Object.fromEntries(embedded.map(({ name }) => [name, () => null])), Viewer: () => 'viewer' },
        resolvers: {
          Query: { categories: paged, products: paged },
          Viewer: { blockedUsers: paged, hiddenPosts: paged, newsFeed: paged, notifications: paged, orders: paged, trades: paged },
          Category: { children: paged, products: paged },
          Circle: { members: paged },
          Discussion: { comments: paged },
          Inventory: { stacks: paged },
          StatusPost: { comments: paged },
          User: { followers: paged, wall: paged },
        },
      }),
      canned,
    ],
  });
  return {
    name: 'graphcache',
    async take(operation, variables, result) {
      answer = result;
      const context = { requestPolicy: 'network-only' };
      if (operation.kind === 'subscription') await pipe(client.subscription(operation.document, variables, context), take(1), toPromise);
      else if (operation.kind === 'mutation') await client.mutation(operation.document, variables, context).toPromise();
      else await client.query(operation.document, variables, context).toPromise();
    },
    async read(operation, variables) {
      const found = await client.query(operation.document, variables, { requestPolicy: 'cache-only' }).toPromise();
      return found.operation.context.meta?.cacheOutcome === 'hit' ? found.data : undefined;
    },
  };
}
