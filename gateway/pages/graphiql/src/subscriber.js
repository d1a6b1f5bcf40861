import { createClient } from 'graphql-ws';
import { failure } from './failure.js';

const DONE = { value: undefined, done: true };

// Runs subscriptions over a WebSocket, one for each set of headers. Their token goes into its first message, for a
// browser cannot send headers with it.
export function createSubscriber(endpoint) {
  const url = new URL(endpoint, window.location.href);
  url.protocol = url.protocol.replace('http', 'ws');
  const clients = new Map();

  return (params, headers) => {
    const key = JSON.stringify(headers);
    if (!clients.has(key)) {
      const options = { url: url.href, connectionParams: headers, lazyCloseTimeout: 3_000 };
      // A code of the protocol's says what is wrong; it would be so again.
      clients.set(key, createClient({ ...options, shouldRetry: ({ code }) => code < 4000 }));
    }
    return results(clients.get(key).iterate(params));
  };
}

// GraphiQL shows a thrown error with its stack, which says nothing to the reader: the last result tells of it. This is no
// generator, for one that waits for its next result cannot be ended.
function results(source) {
  let hasFailed = false;
  return {
    [Symbol.asyncIterator]() {
      return this;
    },
    async next() {
      if (hasFailed) {
        return DONE;
      }
      try {
        return await source.next();
      } catch (error) {
        hasFailed = true;
        return { value: explained(error), done: false };
      }
    },
    return() {
      return source.return();
    },
  };
}

// What ends a subscription is a list of GraphQL errors, or the event of a socket that was closed.
function explained(error) {
  if (Array.isArray(error)) {
    return { errors: error.map(({ message, path, extensions }) => ({ message, path, extensions })) };
  }
  if (error.code !== undefined) {
    return failure(`The connection was closed: ${error.reason || 'no reason was given'} (${error.code}).`);
  }
  return failure(`The subscription failed. ${error.message ?? ''}`.trim());
}
