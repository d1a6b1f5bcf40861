// What the pages of an application show, and the writes that it sends. A write selects what its payload leads to with
// the fragments of the pages, or only a part of an object.
const MONEY = '{ amount currency }';

export const FRAGMENTS = {
  Cart: `fragment Cart on Cart { id status items { id sku title quantity unitPrice ${MONEY} lineTotal ${MONEY} }
    total ${MONEY} }`,
  Stocked: 'fragment Stocked on Product { id sku stock { available reserved sold } }',
  Buyer: `fragment Buyer on Viewer { subject cart { ...Cart } accounts { id name balance ${MONEY} }
    orders(first: 10) { edges { cursor node { id total ${MONEY} items { sku quantity } } } pageInfo { hasNextPage endCursor } } }`,
  Thing: 'fragment Thing on Item { id name quantity price }',
  Room: `fragment Room on Location { id version name description exits { id direction locationId }
    characters { id characterId name } inventory { ...Thing } }`,
  Hero: `fragment Hero on Character { id name gold inventory { ...Thing }
    location { id locationId version name description exits { id direction locationId } characters { id characterId name }
      inventory { ...Thing } } }`,
  Stack: 'fragment Stack on Stack { id category itemId name quantity }',
  Inventory: `fragment Inventory on Inventory { id owner name
    stacks(first: 20) { edges { cursor node { ...Stack } } pageInfo { hasNextPage endCursor } } }`,
  Post: `fragment Post on Post { id posted by { userId name } commentCount
    ... on StatusPost { text } ... on PollPost { text viewerVote options { id text votes } }
    comments(first: 20) { edges { cursor node { id text by { userId name } } } pageInfo { hasNextPage endCursor } } }`,
  Member: `fragment Member on Viewer { user { id name circles { id name members(first: 20) { edges { cursor node { id name } }
      pageInfo { hasNextPage endCursor } } }
    wall(first: 20) { edges { cursor node { ...Post } } pageInfo { hasNextPage endCursor } } }
    blockedUsers(first: 20) { edges { cursor node { id name } } pageInfo { hasNextPage endCursor } }
    hiddenPosts(first: 20) { edges { cursor node { id postId text } } pageInfo { hasNextPage endCursor } } }`,
  News: `fragment News on Viewer {
    newsFeed(first: 20) { edges { cursor month node { ...Post } } pageInfo { hasNextPage endCursor } } }`,
  Trade: `fragment Trade on Trade { id state from to createdAt expiresAt offers { itemId quantity } wants { itemId quantity } }`,
  Trades: 'fragment Trades on Viewer { trades(first: 20) { edges { cursor node { ...Trade } } pageInfo { hasNextPage endCursor } } }',
  Category: `fragment Category on Category { id name slug breadcrumbs { id categoryId name }
    children(first: 20) { edges { cursor node { id name slug } } pageInfo { hasNextPage endCursor } } }`,
  Merchandise: `fragment Merchandise on Product { id sku title nonce properties { id name value } categories { id name }
    pricing { retail ${MONEY} } }`,
  Comment: 'fragment Comment on Comment { id text deleted replyCount author { userId name } parent { id replyCount } }',
  Discussion: `fragment Discussion on Discussion { id commentCount
    comments(first: 100) { edges { cursor node { ...Comment } } pageInfo { hasNextPage endCursor } } }`,
  Shelf: `fragment Shelf on Category { id name products(first: 20) { edges { cursor node { id title } }
    pageInfo { hasNextPage endCursor } } }`,
  Node: 'fragment Node on ContentNode { id nonce title tags path }',
  Folder: `fragment Folder on Section { id children(first: 20) { edges { cursor node { ...Node } }
    pageInfo { hasNextPage endCursor } } }`,
  Browser: `fragment Browser on AdProfile { id
    events(advertiser: "acme", kind: CLICK, last: 20) { kind at campaignId adUnitId siteId zoneId } }`,
  Zone: 'fragment Zone on AdZone { id siteId zoneId ads { id campaignId adUnitId ecpm keywords } }',
};

const PAGES = {
  shop: ['', 'viewer { ...Buyer }'],
  stock: ['$sku: String!', 'product(sku: $sku) { ...Stocked }'],
  otherStock: ['$otherSku: String!', 'product(sku: $otherSku) { ...Stocked }'],
  game: [
    '$keeper: ID!',
    'viewer { subject characters { ...Hero } } character(id: $keeper) { id name gold inventory { ...Thing } }',
  ],
  rooms: ['$room: ID!, $market: ID!', 'room: location(id: $room) { ...Room } market: location(id: $market) { ...Room }'],
  stacks: [
    '$owner: String!',
    'bag: inventory(owner: $owner, name: "bag") { ...Inventory } bank: inventory(owner: $owner, name: "bank") { ...Inventory }',
  ],
  wall: ['', 'viewer { subject ...Member }'],
  news: ['', 'viewer { subject ...News }'],
  trades: ['', 'viewer { subject ...Trades }'],
  category: ['$category: ID!', 'node(id: $category) { id ... on Category { ...Category } }'],
  product: ['$sku: String!', 'product(sku: $sku) { ...Merchandise }'],
  discussion: ['$discussion: ID!', 'node(id: $discussion) { id ... on Discussion { ...Discussion } }'],
  shelves: ['$shelf: ID!, $rack: ID!', 'shelf: node(id: $shelf) { ...Shelf } rack: node(id: $rack) { ...Shelf }'],
  folder: ['$folder: ID!', 'node(id: $folder) { id ...Folder }'],
  zone: ['', 'adZone(siteId: "site", zoneId: "top") { ...Zone }'],
  browser: ['', 'adProfile(userId: "browser") { ...Browser }'],
};

// By the field: the payload, what leads to everything that the page shows, and a part of it.
const CART = 'CartPayload';
const ACTION = ['CharacterPayload', 'character { ...Hero } locations { ...Room } shopkeeper { ...Hero } viewer { subject characters { ...Hero } }'];
const CIRCLE = ['UserPayload', 'user { id name } viewer { subject ...Member ...News }', 'user { id name }'];
const TRADE = [
  'TradePayload',
  'trade { ...Trade } stacks { ...Stack heldIn { ...Inventory } } viewer { subject ...Trades }',
  'trade { id state } stacks { id quantity }',
];
const POST = ['PostPayload', 'post { ...Post } viewer { subject ...Member ...News }', 'post { id commentCount }'];
const COMMENT = ['CommentPayload', 'comment { ...Comment discussion { ...Discussion } }', 'comment { id text }'];
const CONTENT = 'ContentPayload';
const WRITES = {
  createCart: [CART, 'cart { ...Cart } viewer { ...Buyer }', 'cart { id }'],
  addItemToCart: [CART, 'cart { ...Cart } product { ...Stocked } viewer { ...Buyer }', 'cart { id items { id sku quantity } }'],
  updateCartItem: [CART, 'cart { ...Cart } product { ...Stocked } viewer { ...Buyer }', 'cart { id items { id sku quantity } }'],
  checkout: ['CheckoutPayload', 'cart { ...Cart items { id product { ...Stocked } } } viewer { ...Buyer }', 'cart { id status }'],
  transfer: ['TransferPayload', 'transfer { id state } viewer { ...Buyer }', `transfer { id source { id balance ${MONEY} } }`],
  move: [...ACTION, 'character { id location { id name } }'],
  ...Object.fromEntries(['pickUp', 'drop', 'give', 'buy', 'sell'].map((name) => [name, [...ACTION, 'character { id inventory { id name } }']])),
  transferStack: ['StackPayload', 'stack { ...Stack heldIn { ...Inventory } } from { ...Stack heldIn { ...Inventory } }', 'stack { id quantity }'],
  offerTrade: TRADE,
  acceptTrade: TRADE,
  cancelTrade: TRADE,
  addToCircle: CIRCLE,
  removeFromCircle: CIRCLE,
  block: CIRCLE,
  unblock: CIRCLE,
  createPost: POST,
  commentOnPost: POST,
  vote: ['PostPayload', 'post { ...Post }', 'post { id ... on PollPost { options { id votes } } }'],
  deletePostComment: POST,
  deletePost: ['DeletedPayload', 'deletedId viewer { subject ...Member ...News }', 'deletedId'],
  createCategory: ['CategoryPayload', 'category { id parent { ...Category } }', 'category { id name }'],
  renameCategory: ['CategoryPayload', 'category { id name slug parent { ...Category } }', 'category { id name }'],
  moveCategory: ['CategoryPayload', 'category { id parent { ...Category } } from { ...Category }', 'category { id name } from { id }'],
  deleteCategory: ['DeletedPayload', 'deletedId parents { id ... on Category { ...Category } }', 'deletedId'],
  updateProduct: ['ProductPayload', 'product { ...Merchandise categories { ...Shelf } } from { ...Shelf }', 'product { id nonce properties { id value } }'],
  postComment: COMMENT,
  editComment: COMMENT,
  deleteComment: COMMENT,
  createPage: [CONTENT, 'content { ...Node parent { id ...Folder } }', 'content { id title }'],
  editMetadata: [CONTENT, 'content { ...Node parent { id ...Folder } }', 'content { id title }'],
  addTags: [CONTENT, 'content { ...Node }', 'content { id tags }'],
  removeTags: [CONTENT, 'content { ...Node }', 'content { id tags }'],
  deleteContent: ['DeletedPayload', 'deletedId parents { id ...Folder }', 'deletedId'],
  deactivateCampaign: ['CampaignPayload', 'zones changedZones { ...Zone }', 'zones'],
  recordAdEvent: ['AdEventPayload', 'recorded profile { ...Browser }', 'recorded'],
  placeAd: ['AdZonePayload', 'zone { ...Zone }', 'zone { id ads { id ecpm } }'],
};
const INPUTS = { ...Object.fromEntries(['pickUp', 'drop'].map((name) => [name, 'ItemInput'])) };
for (const name of ['addToCircle', 'removeFromCircle']) INPUTS[name] = 'CircleInput';
for (const name of ['block', 'unblock']) INPUTS[name] = 'BlockInput';
for (const name of ['addTags', 'removeTags']) INPUTS[name] = 'TagsInput';
INPUTS.deactivateCampaign = 'CampaignInput';
INPUTS.recordAdEvent = 'AdEventInput';
for (const name of ['acceptTrade', 'cancelTrade']) INPUTS[name] = 'TradeInput';

// By the name of a subscription: its variables, its field, everything that the pages show, and a part of it.
const EVENTS = {
  commented: ['$discussion: ID!', 'commentPosted(discussionId: $discussion)', '...Comment discussion { ...Discussion }', 'id text'],
  posted: ['', 'newsFeedPosted', '...Post', 'id commentCount ... on StatusPost { text } ... on PollPost { text }'],
  roomChanged: ['$room: ID!', 'locationChanged(id: $room)', '...Room', 'id version name'],
  marketChanged: ['$market: ID!', 'locationChanged(id: $market)', '...Room', 'id version name'],
};

function withFragments(text) {
  const used = new Set();
  const add = (part) => {
    for (const [, name] of part.matchAll(/\.\.\.(\w+)/g)) {
      if (name in FRAGMENTS && !used.has(name)) {
        used.add(name);
        add(FRAGMENTS[name]);
      }
    }
  };
  add(text);
  return [text, ...[...used].map((name) => FRAGMENTS[name])].join('\n');
}

export const pages = Object.fromEntries(
  Object.entries(PAGES).map(([name, [variables, selection]]) => [
    name,
    withFragments(`query ${name}${variables && `(${variables})`} { ${selection} }`),
  ]),
);

export function write(name, isWhole) {
  const [payload, whole, part] = WRITES[name];
  const input = INPUTS[name] ?? `${name[0].toUpperCase()}${name.slice(1)}Input`;
  const selection = `${name}(input: $input) { ... on ${payload} { ${isWhole ? whole : part} } ... on UserError { message } }`;
  return withFragments(`mutation ${name}($input: ${input}!) { ${selection} }`);
}

export const events = (isWhole) =>
  Object.fromEntries(
    Object.entries(EVENTS).map(([name, [variables, field, whole, part]]) => [
      name,
      withFragments(`subscription ${name}${variables && `(${variables})`} { ${field} { ${isWhole ? whole : part} } }`),
    ]),
  );
