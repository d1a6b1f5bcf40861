import { ApolloClient, ApolloLink, HttpLink, InMemoryCache } from '@apollo/client';
import { GraphQLWsLink } from '@apollo/client/link/subscriptions';

// Live queries and subscriptions go over the socket of graphql-ws.
const lasts = ({ query }) =>
  query.definitions.some(
    ({ operation, directives }) => operation === 'subscription' || directives?.some(({ name }) => name.value === 'live'),
  );

export const apolloClient = ({ url, headers, socket }) =>
  new ApolloClient({
    link: ApolloLink.split(lasts, new GraphQLWsLink(socket), new HttpLink({ uri: url, headers })),
    cache: new InMemoryCache(),
  });
