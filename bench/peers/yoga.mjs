// GraphQL Yoga on Node's own HTTP server. Its parser and validation caches are on by default.

import { createServer } from "node:http";

import { createSchema, createYoga } from "graphql-yoga";

import { host, newContext, port, resolvers, typeDefs } from "./shared.mjs";

const yoga = createYoga({
  schema: createSchema({ typeDefs, resolvers }),
  context: newContext,
  graphiql: false,
  landingPage: false,
});

createServer(yoga).listen(port, host);
