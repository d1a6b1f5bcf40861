// A page of another origin, with Apollo Client. `run` is called by crossorigin.mjs, in the browser.
import { ApolloClient, ApolloLink, gql, HttpLink, InMemoryCache } from '@apollo/client';
import { CombinedGraphQLErrors } from '@apollo/client/errors';
import { PersistedQueryLink } from '@apollo/client/link/persisted-queries';
import { GraphQLWsLink } from '@apollo/client/link/subscriptions';
import { createClient } from 'graphql-ws';
import { getOperationAST } from 'graphql';

const VIEWER = gql`
  query Viewer {
    viewer {
      subject
    }
  }
`;
const TRUSTED = gql`
  query Trusted($slug: String!) {
    category(slug: $slug) {
      id
      name
    }
  }
`;
const POST = gql`
  mutation Post($input: PostCommentInput!) {
    postComment(input: $input) {
      ... on CommentPayload {
        comment {
          id
          text
        }
      }
    }
  }
`;
const POSTED = gql`
  subscription Posted($id: ID!) {
    commentPosted(discussionId: $id) {
      id
      text
    }
  }
`;

function clientOf({ url, token, ids }) {
  const http = new HttpLink({ uri: url, headers: { authorization: `Bearer ${token}` } });
  const generateHash = (document) => ids[getOperationAST(document).name.value];
  const trusted = new PersistedQueryLink({ generateHash, disable: () => false }).concat(http);
  const sockets = createClient({
    url: url.replace(/^http/, 'ws'),
    connectionParams: () => ({ Authorization: `Bearer ${token}` }),
    retryAttempts: 0,
  });
  const link = ApolloLink.split(
    ({ operationType }) => operationType === 'subscription',
    new GraphQLWsLink(sockets),
    ApolloLink.split(({ operationName }) => operationName in ids, trusted, http),
  );
  return new ApolloClient({ link, cache: new InMemoryCache(), clientAwareness: { name: 'till', version: '1.2' } });
}

// What the client gets of an answer with errors. If the browser hides the answer, it is no error of GraphQL.
function failure(error) {
  if (CombinedGraphQLErrors.is(error)) return { codes: error.errors.map(({ extensions }) => extensions.code) };
  return { failed: String(error) };
}

globalThis.run = async ({ url, token, ids, discussion, slug }) => {
  const client = clientOf({ url, token, ids });
  const seen = {};
  seen.query = (await client.query({ query: VIEWER })).data.viewer.subject;
  seen.trusted = (await client.query({ query: TRUSTED, variables: { slug } })).data.category.name;

  // The gateway delivers from the moment at which the subscription is live, which no client signals: post until it is.
  const texts = [];
  const subscription = client.subscribe({ query: POSTED, variables: { id: discussion } }).subscribe({
    next: ({ data }) => texts.push(data.commentPosted.text),
    error: (error) => texts.push(failure(error)),
  });
  while (!texts.length) {
    const { data } = await client.mutate({ mutation: POST, variables: { input: { discussionId: discussion, text: 'From afar' } } });
    seen.mutation = data.postComment.comment.text;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  subscription.unsubscribe();
  seen.subscription = texts[0];

  const refused = clientOf({ url, token: 'nonsense', ids });
  seen.refused = await refused.query({ query: VIEWER }).then(({ data }) => data, failure);
  return seen;
};
