// The client: one store for all pages, tokens that are renewed, writes that are repeated, and trusted documents.
import { Client, fetchExchange, subscriptionExchange, type Operation } from '@urql/core';
import { authExchange } from '@urql/exchange-auth';
import { persistedExchange } from '@urql/exchange-persisted';
import { retryExchange } from '@urql/exchange-retry';
import { createClient as createSocket } from 'graphql-ws';
import { createStore } from './store';

type GetToken = () => Promise<string | null>;

/** Queries with this context run on the WebSocket, after the subscriptions that were sent before them. */
export const OVER_SOCKET = { overSocket: true };

/** Is dispatched on `window` when an interrupted WebSocket is connected again. */
export const RECONNECTED = 'storefront:reconnected';

/** Returns a client with an empty store. `getToken` fetches a new token; a visitor has none. */
export function createPageClient(getToken: GetToken | null): Client {
  let token: string | null = null;
  let isOutdated = false;
  const renew = async () => {
    try {
      token = (await getToken?.()) ?? null;
      isOutdated = false;
    } catch {
      // The network has failed. The old token stays until the gateway refuses it again.
    }
  };

  const socket = createSocket({
    url: new URL('/graphql', location.href.replace(/^http/, 'ws')).href,
    // A page is open for longer than a token is valid. The gateway then closes the socket, and it connects with a new one.
    connectionParams: async () => {
      if (isOutdated) await renew();
      return token === null ? {} : { Authorization: `Bearer ${token}` };
    },
    retryAttempts: Infinity,
    on: {
      closed: () => {
        isOutdated = true;
      },
      connected: (_socket, _payload, wasRetry) => {
        if (wasRetry) window.dispatchEvent(new Event(RECONNECTED));
      },
    },
  });

  return new Client({
    url: '/graphql',
    preferGetMethod: false,
    exchanges: [
      createStore(),
      authExchange(async ({ appendHeaders }) => {
        await renew();
        return {
          addAuthToOperation: (operation) =>
            token === null ? operation : appendHeaders(operation, { Authorization: `Bearer ${token}` }),
          // A refused request has run nothing, so writes are repeated with the new token, too.
          didAuthError: ({ response }) => response?.status === 401,
          refreshAuth: renew,
        };
      }),
      retryExchange({ initialDelayMs: 200, maxDelayMs: 3_000, maxNumberAttempts: 5, retryIf: isRepeatable }),
      persistedExchange({
        enforcePersistedQueries: true,
        enableForMutation: true,
        enableForSubscriptions: true,
        preferGetForPersistedQueries: false,
        generateHash: async (_text, document) => (document as { __meta__?: { hash: string } }).__meta__?.hash,
      }),
      subscriptionExchange({
        isSubscriptionOperation: ({ kind, context }) => kind === 'subscription' || Boolean(context['overSocket']),
        forwardSubscription: (request) => ({
          // `graphql-ws` asks for a text. The gateway takes the document that `extensions` name.
          subscribe: (sink) => ({ unsubscribe: socket.subscribe({ ...request, query: request.query ?? '' }, sink) }),
        }),
      }),
      fetchExchange,
    ],
  });
}

/** Whether to send the operation again if the network has failed: a write only with its idempotency key. */
function isRepeatable({ networkError }: { networkError?: Error | undefined }, { kind, variables }: Operation): boolean {
  if (networkError === undefined || kind === 'subscription') return false;
  return kind === 'query' || Boolean((variables as { input?: { idempotencyKey?: string } }).input?.idempotencyKey);
}
