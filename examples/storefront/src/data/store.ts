// The normalized store. Objects with an `id` are kept once, whatever query has read them.
import { cacheExchange, type Cache, type Entity, type Link } from '@urql/exchange-graphcache';
import { relayPagination } from '@urql/exchange-graphcache/extras';
import possibleTypes from '../gql/possible-types';

const paged = relayPagination();
// Objects without an id belong to the objects that show them. So does a suggestion, whose match is another for each text.
const EMBEDDED = ['Cover', 'FacetCount', 'Money', 'PriceBand', 'Pricing', 'ProductFacets', 'Profile', 'Property', 'Stock'];
const embedded = [...EMBEDDED, 'Author', 'OrderItem', 'Suggestion', 'TextPart'].map((name) => [name, () => null] as const);

export const createStore = () =>
  cacheExchange({
    ...possibleTypes,
    // An id identifies an object whatever its type is.
    globalIDs: true,
    keys: { ...Object.fromEntries(embedded), Viewer: () => 'viewer' },
    resolvers: {
      Query: { products: paged, publicPosts: paged },
      Category: { products: paged },
      Discussion: { comments: paged },
      Section: { entries: paged },
      Viewer: { newsFeed: paged, notifications: paged, orders: paged },
    },
    updates: {
      Mutation: {
        createPost: ({ createPost }, _arguments, cache) => {
          const { post } = (createPost ?? {}) as { post?: Entity };
          if (post) addTo(cache, 'Query', 'publicPosts', post, { atStart: true });
        },
        markNotificationsRead: (_result, _arguments, cache) => {
          // The payload has the first page. Further pages that are shown are read again.
          for (const { fieldKey, arguments: given } of fieldsOf(cache, 'viewer', 'notifications')) {
            if (given?.['after']) cache.invalidate('viewer', fieldKey);
          }
        },
        postComment: ({ postComment }, _arguments, cache) => addComment(cache, (postComment as Payload | null)?.comment),
      },
      Subscription: {
        commentPosted: ({ commentPosted }, _arguments, cache) => addComment(cache, commentPosted as NewComment),
        orderChanged: ({ orderChanged }, _arguments, cache) =>
          addTo(cache, 'viewer', 'orders', orderChanged as Entity, { atStart: true }),
        notificationReceived: ({ notificationReceived }, _arguments, cache) =>
          addTo(cache, 'viewer', 'notifications', notificationReceived as Entity, { atStart: true }),
        newsFeedPosted: ({ newsFeedPosted }, _arguments, cache) =>
          addTo(cache, 'viewer', 'newsFeed', newsFeedPosted as Entity, { atStart: true }),
      },
    },
  });

type NewComment = Exclude<Entity, string | null> & { discussion: Entity };
type Payload = { comment?: NewComment };

function addComment(cache: Cache, comment: NewComment | undefined) {
  if (comment) addTo(cache, comment.discussion, 'comments', comment, { atStart: false });
}

const fieldsOf = (cache: Cache, parent: Entity, field: string) =>
  cache.inspectFields(parent).filter(({ fieldName }) => fieldName === field);

/** Adds an object to the lists of a field, unless it is there: to their first page, or to their last one if it is read. */
function addTo(cache: Cache, parent: Entity, field: string, node: Entity, { atStart }: { atStart: boolean }) {
  const key = cache.keyOfEntity(node);
  for (const { fieldKey, arguments: given } of fieldsOf(cache, parent, field)) {
    const list = cache.resolve(parent, fieldKey) as Entity;
    const nodes = (cache.resolve(list, 'nodes') ?? []) as Link<Entity>[];
    const isEnd = atStart ? !given?.['after'] : !cache.resolve(cache.resolve(list, 'pageInfo') as Entity, 'hasNextPage');
    if (!isEnd || (nodes as unknown[]).includes(key)) continue;
    cache.link(list, 'nodes', (atStart ? [key, ...nodes] : [...nodes, key]) as Link<Entity>);
  }
}
