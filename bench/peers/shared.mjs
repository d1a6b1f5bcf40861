// The schema, the resolvers and the queries that the three Node.js peers share.
// Every peer creates its context with newContext(), so each request has its own DataLoader.

import DataLoader from "dataloader";
import { MongoClient } from "mongodb";

const PAGE_PROJECTION = { _id: 0, sku: 1, type: 1, title: 1, pricing: 1, category_ids: 1, details: 1 };
const CATEGORY_PROJECTION = { slug: 1, name: 1, "ancestors.slug": 1, "ancestors.name": 1 };

export const port = Number(process.argv[2]);
export const host = "127.0.0.1";

export const typeDefs = /* GraphQL */ `
  scalar BigInt
  scalar JSON

  type Money {
    amount: BigInt!
    currency: String!
  }

  type Pricing {
    list: Money!
    retail: Money!
    savings: Money!
    pctSavings: Int!
  }

  type Breadcrumb {
    slug: String!
    name: String!
  }

  type Category {
    id: ID!
    slug: String!
    name: String!
    breadcrumbs: [Breadcrumb!]!
  }

  interface Product {
    id: ID!
    sku: String!
    title: String!
    pricing: Pricing!
    categories: [Category!]!
  }

  type AudioAlbum implements Product {
    id: ID!
    sku: String!
    title: String!
    pricing: Pricing!
    categories: [Category!]!
    artist: String
    genres: [String!]!
    tracks: [String!]!
  }

  type Film implements Product {
    id: ID!
    sku: String!
    title: String!
    pricing: Pricing!
    categories: [Category!]!
    directors: [String!]!
    writers: [String!]!
    actors: [String!]!
    genres: [String!]!
    aspectRatio: String
  }

  type GeneralProduct implements Product {
    id: ID!
    sku: String!
    title: String!
    pricing: Pricing!
    categories: [Category!]!
    type: String!
    details: JSON!
  }

  enum ProductSort {
    NEWEST
  }

  type PageInfo {
    hasNextPage: Boolean!
  }

  type ProductConnection {
    nodes: [Product!]!
    pageInfo: PageInfo!
  }

  type Query {
    products(sort: ProductSort = NEWEST, first: Int = 20): ProductConnection!
  }
`;

const TYPENAMES = new Map([
  ["Audio Album", "AudioAlbum"],
  ["Film", "Film"],
]);

const globalId = (text) => Buffer.from(text).toString("base64url");

// Fetches one more than the page, so that hasNextPage costs no second query.
const fetchPage = (db, first) =>
  db
    .collection("products")
    .find({ terms: "*" }, { projection: PAGE_PROJECTION, sort: { issue_date: -1, _id: -1 }, limit: first + 1 })
    .toArray();

async function fetchCategories(db, ids) {
  const found = await db
    .collection("categories")
    .find({ _id: { $in: ids } }, { projection: CATEGORY_PROJECTION })
    .toArray();
  const byId = new Map(found.map((category) => [category._id.toHexString(), category]));
  return ids.map((id) => byId.get(id.toHexString()) ?? null);
}

const money = (amount, { currency }) => ({ amount, currency });

const product = {
  id: ({ sku }) => globalId(`Product:${sku}`),
  categories: async ({ category_ids }, _, { categories }) =>
    (await categories.loadMany(category_ids)).filter((category) => category !== null),
};

export const resolvers = {
  Query: {
    products: async (_, { first }, { db }) => {
      const found = await fetchPage(db, first);
      return { nodes: found.slice(0, first), pageInfo: { hasNextPage: found.length > first } };
    },
  },
  Product: {
    __resolveType: ({ type }) => TYPENAMES.get(type) ?? "GeneralProduct",
  },
  AudioAlbum: {
    ...product,
    artist: ({ details }) => details.artist ?? null,
    genres: ({ details }) => details.genres ?? [],
    tracks: ({ details }) => details.tracks ?? [],
  },
  Film: {
    ...product,
    directors: ({ details }) => details.directors ?? [],
    writers: ({ details }) => details.writers ?? [],
    actors: ({ details }) => details.actors ?? [],
    genres: ({ details }) => details.genres ?? [],
    aspectRatio: ({ details }) => details.aspect_ratio ?? null,
  },
  GeneralProduct: {
    ...product,
    details: ({ details }) => details ?? {},
  },
  Pricing: {
    list: (pricing) => money(pricing.list, pricing),
    retail: (pricing) => money(pricing.retail, pricing),
    savings: (pricing) => money(pricing.savings, pricing),
    pctSavings: ({ pct_savings }) => pct_savings,
  },
  Category: {
    id: ({ _id }) => globalId(`Category:${_id.toHexString()}`),
    breadcrumbs: ({ ancestors }) => ancestors,
  },
};

const client = await new MongoClient(process.env.PORTICO_MONGODB_URI).connect();
const db = client.db(process.env.PORTICO_DATABASE);

export function newContext() {
  return {
    db,
    // Two equal ObjectIds are different keys of a Map, but their hex strings are equal.
    categories: new DataLoader((ids) => fetchCategories(db, ids), { cacheKeyFn: (id) => id.toHexString() }),
  };
}
