// Mercurius on Fastify, with its just-in-time compiler from the first request on.

import Fastify from "fastify";
import mercurius from "mercurius";

import { host, newContext, port, resolvers, typeDefs } from "./shared.mjs";

const app = Fastify();

app.register(mercurius, {
  schema: typeDefs,
  // Mercurius calls this function resolveType, the others call it __resolveType.
  resolvers: { ...resolvers, Product: { resolveType: resolvers.Product.__resolveType } },
  context: newContext,
  jit: 1,
});

await app.listen({ host, port });
