// The viewer's subscriptions over a WebSocket, from now on, each with the whole selection and with a part.
import { createClient } from 'graphql-ws';
import WebSocket from 'ws';

const SECONDS = 20;

export async function listener({ url, token, operations, variablesOf }) {
  const client = createClient({
    url: url.replace(/^http/, 'ws'),
    webSocketImpl: WebSocket,
    connectionParams: { Authorization: `Bearer ${token}` },
    retryAttempts: 0,
  });
  const received = new Map();
  const waiting = new Set();
  for (const [place, texts] of operations.entries()) {
    for (const [name, operation] of Object.entries(texts)) {
      const list = [];
      received.set(`${name} ${place}`, { operation, list });
      client.subscribe(
        { query: operation.text, variables: variablesOf(operation) },
        {
          next: (result) => {
            list.push(result);
            for (const look of waiting) look();
          },
          error: (error) => list.push({ errors: [Array.isArray(error) ? error : `${error.code ?? error.stack} ${error.reason ?? ''}`] }),
          complete: () => {},
        },
      );
    }
  }
  // The gateway answers after all subscriptions that came before on the connection are live.
  for await (const _ of client.iterate({ query: '{ __typename }' })) break;
  // The first event that is expected. Forgets it and those before it.
  async function arrived(name, place, isExpected) {
    const { operation, list } = received.get(`${name} ${place}`);
    const found = await new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`no event of ${name} in ${SECONDS} seconds: ${JSON.stringify(list)}`)), SECONDS * 1_000);
      const look = () => {
        const first = list.findIndex(({ data }) => data && isExpected(Object.values(data)[0]));
        if (first === -1) return;
        clearTimeout(timer);
        waiting.delete(look);
        resolve(first);
      };
      waiting.add(look);
      look();
    });
    const [result] = list.splice(0, found + 1).slice(-1);
    return { operation, result };
  }
  return {
    // Both operations deliver the event, so that neither keeps it for a later write.
    async event(name, isWhole, isExpected) {
      const [whole, part] = await Promise.all([0, 1].map((place) => arrived(name, place, isExpected)));
      return isWhole ? whole : part;
    },
  };
}
