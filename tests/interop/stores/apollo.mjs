// Apollo Client, configured as docs/frontend.md says.
import { ApolloClient, ApolloLink, InMemoryCache } from '@apollo/client';
import { relayStylePagination } from '@apollo/client/utilities';
import { lastValueFrom, of } from 'rxjs';

export function apollo({ possibleTypes }) {
  let answer;
  const paged = relayStylePagination();
  const replaced = { merge: (_existing, incoming) => incoming };
  const cache = new InMemoryCache({
    possibleTypes,
    typePolicies: {
      Viewer: {
        // One object in the store, without an id.
        keyFields: [],
        fields: {
          accounts: replaced,
          blockedUsers: paged,
          characters: replaced,
          hiddenPosts: paged,
          incoming: relayStylePagination(['month']),
          newsFeed: relayStylePagination(['month']),
          notifications: relayStylePagination(['unreadOnly']),
          orders: paged,
          trades: relayStylePagination(['state']),
        },
      },
      Query: {
        fields: {
          categories: paged,
          characters: relayStylePagination(['locationId', 'owner']),
          contentByTag: relayStylePagination(['tag']),
          logEvents: relayStylePagination(['filter']),
          orders: relayStylePagination(['status']),
          products: relayStylePagination(['filter', 'sort']),
          publicPosts: relayStylePagination(['month']),
          rootContent: paged,
          rootSections: paged,
          users: paged,
        },
      },
      BlogEntry: { fields: { revisions: paged } },
      Category: {
        fields: {
          children: paged,
          descendants: paged,
          products: relayStylePagination(['filter', 'includeDescendants', 'sort']),
        },
      },
      Circle: { fields: { members: paged } },
      Comment: { fields: { replies: paged, thread: paged } },
      Discussion: { fields: { comments: relayStylePagination(['maxDepth', 'order']) } },
      Inventory: { fields: { stacks: relayStylePagination(['category', 'namePrefix', 'sort']) } },
      Page: { fields: { revisions: paged } },
      // Also for the types that implement it.
      Post: { fields: { comments: paged, hiddenComments: paged } },
      Section: { fields: { children: paged, entries: paged } },
      User: { fields: { circles: replaced, followers: paged, wall: relayStylePagination(['month']) } },
    },
  });
  const client = new ApolloClient({ cache, link: new ApolloLink(() => of(answer)), clientAwareness: { name: 'stores' } });
  return {
    name: 'apollo',
    async take(operation, variables, result) {
      answer = structuredClone(result);
      if (operation.kind === 'mutation') await client.mutate({ mutation: operation.document, variables, errorPolicy: 'all' });
      else if (operation.kind === 'subscription') await lastValueFrom(client.subscribe({ query: operation.document, variables }));
      else await client.query({ query: operation.document, variables, fetchPolicy: 'network-only', errorPolicy: 'all' });
    },
    read(operation, variables) {
      const found = cache.diff({ query: operation.document, variables, returnPartialData: true, optimistic: false });
      return found.complete ? found.result : undefined;
    },
  };
}
