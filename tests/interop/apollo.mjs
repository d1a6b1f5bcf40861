// Sends queries with Apollo Client and its link for persisted queries: node apollo.mjs HTTP_URL [MANIFEST].
// Without a manifest, the link persists texts by their hashes. Prints what the client gets, and what it sends, as JSON.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { ApolloClient, ApolloLink, gql, HttpLink, InMemoryCache } from '@apollo/client';
import { PersistedQueryLink } from '@apollo/client/link/persisted-queries';
import { getOperationAST, print } from 'graphql';

const [url, manifest] = process.argv.slice(2);
const VIEWER = gql`
  query Viewer {
    viewer {
      subject
    }
  }
`;
const OTHER = gql`
  query Other {
    viewer {
      name: subject
    }
  }
`;

const sha256 = (text) => createHash('sha256').update(text).digest('hex');
const operations = manifest ? JSON.parse(readFileSync(manifest)).operations : [];
const idOf = (query) => operations.find(({ name }) => name === getOperationAST(query).name.value)?.id ?? 'unknown';
const hashed = manifest ? { generateHash: idOf } : { sha256 };

async function tried(options) {
  const requests = [];
  const send = async (input, given) => {
    const isGet = given.method === 'GET';
    const sent = isGet ? Object.fromEntries(new URL(input).searchParams) : JSON.parse(given.body);
    const extensions = isGet ? JSON.parse(sent.extensions ?? '{}') : sent.extensions;
    const response = await fetch(input, given);
    requests.push([given.method, 'query' in sent, Boolean(extensions?.persistedQuery), response.status]);
    return response;
  };
  const link = ApolloLink.from([new PersistedQueryLink({ ...hashed, ...options }), new HttpLink({ uri: url, fetch: send })]);
  const client = new ApolloClient({
    link,
    cache: new InMemoryCache(),
    clientAwareness: { name: 'till', version: '1.2' },
  });
  const results = [];
  for (const query of [VIEWER, VIEWER, OTHER]) {
    const { data, error } = await client.query({ query, fetchPolicy: 'network-only', errorPolicy: 'all' });
    results.push(error ? error.errors.map(({ extensions }) => extensions.code) : data.viewer);
  }
  return { results, requests };
}

const texts = [VIEWER, OTHER].map(print);
const post = await tried({});
const get = await tried({ useGETForHashedQueries: true });
console.log(JSON.stringify({ post, get, texts }));
