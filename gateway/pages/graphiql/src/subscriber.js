import { createClient } from 'graphql-ws';
import { failure } from './failure.js';

const DONE = { value: undefined, done: true };

// Runs subscriptions over WebSockets, one for each set of headers. The first message contains the headers, because
// browsers cannot send headers with a WebSocket.
export function createSubscriber(endpoint) {
  const url = new URL(endpoint, window.location.href);
  url.protocol = url.protocol.replace('http', 'ws');
  const clients = new Map();

  return (params, headers) => {
    const key = JSON.stringify(headers);
    if (!clients.has(key)) {
      const options = { url: url.href, connectionParams: headers, lazyCloseTimeout: 3_000 };
      // Codes from 4000 on are errors of the protocol, so a retry would fail, too.
      clients.set(key, createClient({ ...options, shouldRetry: ({ code }) => code < 4000 }));
    }
    return results(clients.get(key).iterate(params));
  };
}

// Returns the results, with an error as the last one (see failure.js). This is not a generator, because a generator that
// waits for its next result cannot be ended.
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
        return { value: toResult(error), done: false };
      }
    },
    return() {
      return source.return();
    },
  };
}

// A subscription ends with a list of GraphQL errors, or with the close event of its socket.
function toResult(error) {
  if (Array.isArray(error)) {
    return { errors: error.map(({ message, path, extensions }) => ({ message, path, extensions })) };
  }
  if (error.code !== undefined) {
    return failure(`The connection was closed: ${error.reason || 'no reason given'} (${error.code}).`);
  }
  return failure(`The subscription failed. ${error.message ?? ''}`.trim());
}
