// Apollo Server by its standalone integration. Its document store (parsed and validated) is on by default.

import { ApolloServer } from "@apollo/server";
import { startStandaloneServer } from "@apollo/server/standalone";

import { host, newContext, port, resolvers, typeDefs } from "./shared.mjs";

const server = new ApolloServer({
  typeDefs,
  resolvers,
  // By default a line feed follows the JSON, and the other peers send none.
  stringifyResult: JSON.stringify,
});

await startStandaloneServer(server, { listen: { host, port }, context: async () => newContext() });
