import relay from 'relay-runtime';

const { Environment, Network, Observable, RecordSource, Store } = relay;

export function relayEnvironment({ url, headers, socket }) {
  const follow = ({ text }, variables) => Observable.create((sink) => socket.subscribe({ query: text, variables }, sink));
  const ask = async ({ text }, variables) => {
    const body = JSON.stringify({ query: text, variables });
    const answer = await fetch(url, { method: 'POST', headers: { ...headers, 'Content-Type': 'application/json' }, body });
    return answer.json();
  };
  // Live queries and subscriptions go over the socket of graphql-ws.
  const isLive = ({ text }) => /@live\b/.test(text);
  const fetchQuery = (request, variables) => (isLive(request) ? follow : ask)(request, variables);
  return new Environment({ network: Network.create(fetchQuery, follow), store: new Store(new RecordSource()) });
}
