// What the pages of an application show, and the writes that it sends. A write selects what its payload leads to with
// the fragments of the pages, or only a part of an object.
const MONEY = '{ amount currency }';

export const FRAGMENTS = {
  Cart: `fragment Cart on Cart { id status items { id sku title quantity unitPrice ${MONEY} lineTotal ${MONEY} }
    total ${MONEY} }`,
  Stocked: 'fragment Stocked on Product { id sku stock { available reserved sold } }',
  Buyer: `fragment Buyer on Viewer { subject cart { ...Cart } accounts { id name balance ${MONEY} }
    orders(first: 10) { edges { cursor node { id status total ${MONEY} items { sku quantity } } } pageInfo { hasNextPage endCursor } } }`,
  Thing: 'fragment Thing on Item { id name quantity price contents { id name } }',
  Room: `fragment Room on Location { id version name description exits { id direction locationId }
    characters { id characterId name } inventory { ...Thing } }`,
  Hero: `fragment Hero on Character { id name gold inventory { ...Thing }
    armor { head { id name } body { id name } } weapons { left { id name } right { id name } both { id name } }
    location { id locationId version name description exits { id direction locationId } characters { id characterId name }
      inventory { ...Thing } } }`,
  Stack: 'fragment Stack on Stack { id category itemId name quantity }',
  Inventory: `fragment Inventory on Inventory { id owner name
    stacks(first: 20) { edges { cursor node { ...Stack } } pageInfo { hasNextPage endCursor } } }`,
  By: 'fragment By on Author { userId user { id name } }',
  Post: `fragment Post on Post { id posted by { ...By } commentCount
    ... on StatusPost { text } ... on PollPost { text viewerVote options { id text votes } }
    comments(first: 20) { edges { cursor node { id text by { ...By } } } pageInfo { hasNextPage endCursor } } }`,
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
  Picture: 'fragment Picture on Image { id alt width url }',
  Merchandise: `fragment Merchandise on Product { id sku title nonce properties { id name value } categories { id name } images { ...Picture }
    pricing { retail ${MONEY} } }`,
  Comment: 'fragment Comment on Comment { id text deleted replyCount author { ...By } parent { id replyCount } }',
  Discussion: `fragment Discussion on Discussion { id commentCount
    comments(first: 100) { edges { cursor node { ...Comment } } pageInfo { hasNextPage endCursor } } }`,
  Shelf: `fragment Shelf on Category { id name images { ...Picture } products(first: 20) { edges { cursor node { id sku nonce title } }
    pageInfo { hasNextPage endCursor } } }`,
  Revisions: 'fragment Revisions on RevisionConnection { edges { cursor node { id } } pageInfo { hasNextPage endCursor } }',
  Node: `fragment Node on ContentNode { id nonce title tags path discussion { id } ... on Photo { url width checksum }
    ... on Page { text revisions(first: 5) { ...Revisions } } ... on BlogEntry { text revisions(first: 5) { ...Revisions } } }`,
  Folder: `fragment Folder on Section { id children(first: 20) { edges { cursor node { ...Node } }
    pageInfo { hasNextPage endCursor } } }`,
  Blog: `fragment Blog on Section { id entries(first: 20) { edges { cursor node { ...Node } }
    pageInfo { hasNextPage endCursor } } }`,
  Happening: 'fragment Happening on AdEvent { kind at campaignId adUnitId siteId zoneId }',
  Browser: `fragment Browser on AdProfile { id clicks: events(advertiser: "acme", kind: CLICK, last: 20) { ...Happening }
    impressions: events(advertiser: "acme", kind: IMPRESSION, last: 20) { ...Happening } }`,
  Creative: 'fragment Creative on AdCreative { id text link imageUrl size { width height } }',
  Zone: 'fragment Zone on AdZone { id siteId zoneId ads { id campaignId adUnitId ecpm keywords creative { ...Creative } } }',
  Notice: 'fragment Notice on Notification { id reason readAt nodeId }',
  Notices: `fragment Notices on Viewer { unreadNotificationCount
    notifications(first: 20) { edges { cursor node { ...Notice } } pageInfo { hasNextPage endCursor } } }`,
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
  blog: ['$blog: ID!', 'node(id: $blog) { id ...Folder ...Blog }'],
  gallery: ['$gallery: ID!', 'node(id: $gallery) { id ...Folder }'],
  notices: ['', 'viewer { subject ...Notices }'],
  zone: ['', 'adZone(siteId: "site", zoneId: "top") { ...Zone }'],
  browser: ['', 'adProfile(userId: "browser") { ...Browser }'],
};

// By the field: the payload, what leads to everything that the page shows, and a part of it.
const CART = 'CartPayload';
const ACTION = ['CharacterPayload', 'character { ...Hero } locations { ...Room } shopkeeper { ...Hero } viewer { subject characters { ...Hero } }'];
const CIRCLE = ['UserPayload', 'user { id name } viewer { subject ...Member ...News ...Notices }', 'user { id name }'];
const TRADE = [
  'TradePayload',
  'trade { ...Trade } stacks { ...Stack heldIn { ...Inventory } } viewer { subject ...Trades }',
  'trade { id state } stacks { id quantity }',
];
const POST = ['PostPayload', 'post { ...Post } viewer { subject ...Member ...News }', 'post { id commentCount }'];
const COMMENT = ['CommentPayload', 'comment { ...Comment discussion { ...Discussion } }', 'comment { id text }'];
const CONTENT = ['ContentPayload', 'content { ...Node parent { id ...Folder ...Blog } }', 'content { id title }'];
const PHOTO = ['PhotoPayload', 'photo { ...Node parent { id ...Folder } }', 'photo { id title }'];
const ORDER = ['OrderPayload', 'order { id status items { product { ...Stocked } } } viewer { ...Buyer }', 'order { id status }'];
const STACK = ['StackPayload', 'stack { ...Stack heldIn { ...Inventory } } from { ...Stack heldIn { ...Inventory } }', 'stack { id quantity }'];
const IMAGES = ['ImagesPayload', 'product { ...Merchandise } category { ...Shelf }', 'product { id images { id } } category { id images { id } }'];
const WRITES = {
  createCart: [CART, 'cart { ...Cart } viewer { ...Buyer }', 'cart { id }'],
  addItemToCart: [CART, 'cart { ...Cart } product { ...Stocked } viewer { ...Buyer }', 'cart { id items { id sku quantity } }'],
  updateCartItem: [CART, 'cart { ...Cart } product { ...Stocked } viewer { ...Buyer }', 'cart { id items { id sku quantity } }'],
  claimCart: [CART, 'cart { ...Cart } viewer { ...Buyer }', 'cart { id }'],
  discardCart: [CART, 'cart { ...Cart items { id product { ...Stocked } } } viewer { ...Buyer }', 'cart { id status }'],
  shipOrder: ORDER,
  deliverOrder: ORDER,
  cancelOrder: ORDER,
  restock: ['StockPayload', 'product { ...Stocked }', 'product { id stock { available } }'],
  openAccount: ['AccountPayload', 'account { id } viewer { ...Buyer }', 'account { id name }'],
  deposit: ['AccountPayload', 'account { id } viewer { ...Buyer }', `account { id balance ${MONEY} }`],
  checkout: ['CheckoutPayload', 'cart { ...Cart items { id product { ...Stocked } } } order { id } viewer { ...Buyer }', 'cart { id status } order { id }'],
  transfer: ['TransferPayload', 'transfer { id state } viewer { ...Buyer }', `transfer { id source { id balance ${MONEY} } }`],
  move: [...ACTION, 'character { id location { id name } }'],
  ...Object.fromEntries(
    ['pickUp', 'drop', 'give', 'buy', 'sell', 'putIn', 'takeOut', 'wear', 'wield', 'unequip', 'createCharacter', 'spawnCharacter'].map((name) => (
      [name, [...ACTION, 'character { id inventory { id name } }']])),
  ),
  moveCharacter: ['MoveCharacterPayload', 'character { ...Hero } from { ...Room } to { ...Room } viewer { subject characters { ...Hero } }', 'character { id name } to { id name }'],
  deleteCharacter: ['DeleteCharacterPayload', 'deletedId location { ...Room } viewer { subject characters { ...Hero } }', 'deletedId'],
  transferStack: STACK,
  grant: STACK,
  consume: STACK,
  offerTrade: TRADE,
  acceptTrade: TRADE,
  cancelTrade: TRADE,
  addToCircle: CIRCLE,
  removeFromCircle: CIRCLE,
  block: CIRCLE,
  unblock: CIRCLE,
  updateProfile: CIRCLE,
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
  createProduct: ['ProductPayload', 'product { ...Merchandise categories { ...Shelf } }', 'product { id title }'],
  deleteProduct: ['DeletedPayload', 'deletedId parents { id ...Shelf }', 'deletedId'],
  addImage: IMAGES,
  removeImage: IMAGES,
  openDiscussion: ['DiscussionPayload', 'discussion { id subject { id ...Node } }', 'discussion { id }'],
  postComment: COMMENT,
  editComment: COMMENT,
  deleteComment: COMMENT,
  ...Object.fromEntries(
    ['createSection', 'createPage', 'createBlogEntry', 'editText', 'editMetadata', 'restoreRevision', 'addTags', 'removeTags'].map((name) => (
      [name, CONTENT])),
  ),
  uploadPhoto: PHOTO,
  replacePhoto: PHOTO,
  deleteContent: ['DeletedPayload', 'deletedId parents { id ...Folder ...Blog }', 'deletedId'],
  deactivateCampaign: ['CampaignPayload', 'zones changedZones { ...Zone }', 'zones'],
  recordAdEvent: ['AdEventPayload', 'recorded profile { ...Browser }', 'recorded'],
  serveAds: ['ServedAdsPayload', 'ads { id campaignId } profile { ...Browser }', 'ads { id campaignId }'],
  setAdCreative: ['AdCreativePayload', 'creative { ...Creative } changedZones { ...Zone }', 'creative { id text }'],
  markNotificationsRead: ['MarkNotificationsReadPayload', 'notifications { ...Notice } viewer { subject ...Notices }', 'notifications { id readAt }'],
  placeAd: ['AdZonePayload', 'zone { ...Zone }', 'zone { id ads { id ecpm } }'],
};
const INPUTS = { ...Object.fromEntries(['pickUp', 'drop', 'unequip'].map((name) => [name, 'ItemInput'])) };
for (const name of ['addToCircle', 'removeFromCircle']) INPUTS[name] = 'CircleInput';
for (const name of ['block', 'unblock']) INPUTS[name] = 'BlockInput';
for (const name of ['addTags', 'removeTags']) INPUTS[name] = 'TagsInput';
for (const name of ['putIn', 'takeOut']) INPUTS[name] = 'ContainerInput';
INPUTS.deactivateCampaign = 'CampaignInput';
INPUTS.recordAdEvent = 'AdEventInput';
for (const name of ['acceptTrade', 'cancelTrade']) INPUTS[name] = 'TradeInput';

// By the name of a subscription: its variables, its field, everything that the pages show, and a part of it.
const EVENTS = {
  commented: ['$discussion: ID!', 'commentPosted(discussionId: $discussion)', '...Comment discussion { ...Discussion }', 'id text'],
  heroChanged: ['$hero: ID!', 'characterChanged(id: $hero)', '...Hero', 'id inventory { id name }'],
  notified: ['', 'notificationReceived', '...Notice', 'id reason nodeId'],
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
