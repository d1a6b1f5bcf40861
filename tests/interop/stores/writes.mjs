// Chooses a random write that fits what the pages show: [name, input, {as, live, pages, except, file}]. With `as`, another
// member writes. With `live`, the viewer's subscriptions deliver what they need to show these pages; each value says
// whether an event is the one, by the event and by what the write has answered. `except` names a page that no payload
// leads to. `file` is the member of the input that is a picture.
let numbers = 0;
const key = () => `key-${process.pid}-${Date.now()}-${(numbers += 1)}`;
const rows = (connection) => (connection?.edges ?? []).map(({ node }) => node);

export function writes(random, scene, shown) {
  const pick = (list) => list[random(list.length)];
  const number = () => random(1_000);
  const hero = shown.game.viewer.characters[0];
  const here = hero.location;
  const cart = shown.shop.viewer.cart;
  const lines = cart?.items ?? [];
  const posts = rows(shown.wall.viewer.user.wall).filter(({ by }) => by.userId === scene.owner);
  const comments = rows(shown.discussion.node.comments).filter(({ deleted }) => !deleted);
  const children = rows(shown.category.node.children);
  const held = rows(shown.stacks.bag.stacks);
  const banked = rows(shown.stacks.bank.stacks);
  const blocked = rows(shown.wall.viewer.blockedUsers).map(({ id }) => id);
  // Whom the viewer has blocked causes no notices.
  const isBoHeard = !blocked.includes(scene.others[0]);
  const found = [];
  const may = (condition, name, input, more = {}) => condition && found.push([name, input, more]);

  may(!cart, 'createCart', {});
  may(cart, 'addItemToCart', cart && { cartId: cart.id, sku: pick([scene.sku, scene.otherSku]), quantity: 1 + random(3) });
  for (const line of lines) {
    may(true, 'updateCartItem', { cartId: cart.id, sku: line.sku, oldQuantity: line.quantity, newQuantity: random(4) });
  }
  const isOf = (reason, kind) => (notice, written) => notice.reason === reason && notice.nodeId === written[kind].id;
  const ofOrders = (reason) => ({ live: { notified: isOf(reason, 'order') }, except: 'notices' });
  may(lines.length && random(3) === 0, 'checkout', cart && { cartId: cart.id, payment: { accountId: scene.account }, idempotencyKey: key() },
    ofOrders('ORDER_PLACED'));
  may(cart, 'discardCart', cart && { cartId: cart.id });
  may(!scene.guestCart, 'createCart', {}, { as: 'guest' });
  may(scene.guestCart, 'addItemToCart', { cartId: scene.guestCart, sku: scene.otherSku, quantity: 1 }, { as: 'guest' });
  may(scene.guestCart, 'claimCart', { cartId: scene.guestCart });
  for (const { id, status } of rows(shown.shop.viewer.orders)) {
    may(status === 'PLACED', 'shipOrder', { orderId: id }, ofOrders('ORDER_SHIPPED'));
    may(status === 'PLACED', 'cancelOrder', { orderId: id }, ofOrders('ORDER_CANCELLED'));
    may(status === 'SHIPPED', 'deliverOrder', { orderId: id }, ofOrders('ORDER_DELIVERED'));
  }
  may(true, 'restock', { sku: pick([scene.sku, scene.otherSku]), quantity: 1 + random(9), idempotencyKey: key() });
  const { accounts } = shown.shop.viewer;
  may(accounts.length < 5, 'openAccount', { name: `Account ${number()}`, currency: 'USD' });
  may(true, 'deposit', { accountId: pick(accounts).id, amount: { amount: 1 + number(), currency: 'USD' }, idempotencyKey: key() });
  may(true, 'transfer', { sourceId: scene.account, destinationId: scene.savings, amount: { amount: 1 + number() }, idempotencyKey: key() });
  for (const { direction } of here.exits) may(true, 'move', { characterId: hero.id, direction });
  for (const { id } of here.inventory) may(true, 'pickUp', { characterId: hero.id, itemId: id });
  const containers = [...hero.inventory, ...here.inventory].filter(({ contents }) => contents);
  for (const { id: containerId, contents } of containers) {
    for (const { id } of hero.inventory) may(id !== containerId, 'putIn', { characterId: hero.id, containerId, itemId: id });
    for (const { id } of contents) may(true, 'takeOut', { characterId: hero.id, containerId, itemId: id });
  }
  const used = [...hero.armor.head, ...hero.armor.body, ...Object.values(hero.weapons)].filter((one) => one?.id);
  for (const { id } of used) may(true, 'unequip', { characterId: hero.id, itemId: id });
  const [, ...heroes] = shown.game.viewer.characters;
  may(heroes.length < 3, 'createCharacter', { name: `Hero ${number()}`, characterClass: 'thief' });
  for (const { id } of heroes) may(random(2) === 0, 'deleteCharacter', { characterId: id });
  may(shown.rooms.market.characters.length < 8, 'spawnCharacter',
    { owner: 'mara', locationId: scene.market, name: `Guest ${number()}`, characterClass: 'thief' });
  may(true, 'moveCharacter', { characterId: pick([scene.friend, hero.id]), locationId: pick([scene.room, scene.market]) });
  for (const { id, name } of hero.inventory) {
    may(['hat', 'cap', 'helmet'].includes(name), 'wear', { characterId: hero.id, itemId: id, region: 'HEAD' });
    may(['knife', 'dagger', 'axe', 'sword'].includes(name), 'wield', { characterId: hero.id, itemId: id, hand: pick(['LEFT', 'RIGHT', 'BOTH']) });
    may(true, 'drop', { characterId: hero.id, itemId: id });
    for (const { characterId } of here.characters) {
      may(characterId === scene.friend, 'give', { characterId: hero.id, itemId: id, toId: characterId });
    }
    may(here.locationId === scene.room, 'sell', { characterId: hero.id, itemId: id, shopkeeperId: scene.keeper });
  }
  for (const itemId of scene.given) {
    may(isBoHeard, 'give', { characterId: scene.friend, itemId, toId: hero.id },
      { as: 'bo', pages: [], live: { heroChanged: ({ inventory }) => inventory.some(({ id }) => id === itemId), notified: ({ reason }) => reason === 'GIFT_RECEIVED' } });
  }
  for (const { id } of shown.game.character.inventory) {
    may(here.locationId === scene.room, 'buy', { characterId: hero.id, itemId: id, shopkeeperId: scene.keeper });
  }
  const inventory = (name) => ({ owner: scene.owner, name });
  for (const [stacks, from, to] of [[held, 'bag', 'bank'], [banked, 'bank', 'bag']]) {
    for (const { category, itemId, quantity } of stacks) {
      const stack = { category, itemId, quantity: 1 + random(quantity) };
      may(true, 'transferStack', { from: inventory(from), to: inventory(to), stack, idempotencyKey: key() });
    }
  }
  for (const { category, itemId, quantity } of held) {
    may(true, 'consume', { from: inventory('bag'), stack: { category, itemId, quantity: 1 + random(Math.min(quantity, 3)) }, idempotencyKey: key() });
  }
  const [granted, amount] = [pick(['sword', 'coin', 'gem']), 1 + random(5)];
  may(true, 'grant', { to: inventory('bag'), category: 'thing', itemId: granted, name: granted, quantity: amount, idempotencyKey: key() });
  const trades = rows(shown.trades.viewer.trades);
  const goods = (itemId, quantity) => ({ category: 'thing', itemId, quantity });
  const bag = { owner: scene.owner, name: 'bag' };
  for (const { itemId, quantity } of held.filter(({ quantity }) => quantity > 0)) {
    const wants = random(2) ? [goods(itemId === 'gem' ? 'coin' : 'gem', 1)] : [];
    may(true, 'offerTrade', { from: bag, to: { owner: 'bo' }, offers: [goods(itemId, 1 + random(quantity))], wants, idempotencyKey: key() });
  }
  const wanted = pick([[], [goods('coin', 1 + random(3))], [goods('sword', 1 + random(9))]]);
  may(isBoHeard && (trades.length < 15 || random(3) === 0), 'offerTrade',
    { from: { owner: 'bo' }, to: bag, offers: [goods('gem', 1 + random(5))], wants: wanted, idempotencyKey: key() },
    { as: 'bo', live: { notified: isOf('TRADE_OFFERED', 'trade') }, pages: [] });
  const notices = rows(shown.notices.viewer.notifications);
  const unread = notices.filter(({ readAt }) => !readAt);
  may(unread.length, 'markNotificationsRead', unread.length && { which: random(2) ? { ids: [pick(unread).id] } : { through: pick(notices).id } });
  for (const { id, state, from } of trades) {
    if (state === 'OFFERED') {
      may(true, 'cancelTrade', { id });
      may(from !== scene.owner, 'acceptTrade', { id });
    }
  }
  const other = pick(scene.others);
  const circle = pick(['friends', 'family']);
  may(true, pick(['addToCircle', 'removeFromCircle']), { userId: other, circle });
  may(random(2) === 0, 'updateProfile', { name: `Tester ${number()}`, profile: { about: `About ${number()}`, interests: [] } });
  may(true, pick(['block', 'unblock']), { userId: other });
  may(posts.length < 10, 'createPost', { detail: { status: { text: `Post ${number()}` } } });
  for (const post of posts) {
    may(true, 'commentOnPost', { postId: post.id, text: `Comment ${number()}` });
    may(random(3) === 0, 'deletePost', { postId: post.id });
    for (const { id } of rows(post.comments)) may(true, 'deletePostComment', { postId: post.id, commentId: id });
  }
  const poll = { text: `Poll ${number()}`, options: ['Yes', 'No', 'Perhaps'] };
  may(posts.length < 10, 'createPost', { detail: { poll } });
  const news = rows(shown.news.viewer.newsFeed);
  for (const post of [...posts, ...news]) {
    may(post.__typename === 'PollPost', 'vote', { postId: post.id, option: random(3) });
  }
  for (const post of news) {
    may(true, 'commentOnPost', { postId: post.id, text: `Comment ${number()}` });
    may(random(4) === 0, 'deletePost', { postId: post.id }, { as: post.by.userId });
  }
  const followed = shown.wall.viewer.user.circles.flatMap(({ members }) => rows(members)).map(({ id }) => id);
  const text = `News ${process.pid} ${(numbers += 1)}`;
  for (const [place, as] of ['bo', 'mara'].entries()) {
    const id = scene.others[place];
    const detail = random(2) ? { status: { text } } : { poll: { ...poll, text } };
    may(followed.includes(id) && !blocked.includes(id) && news.length < 12, 'createPost', { detail },
      { as, live: { posted: (post) => post.text === text }, pages: [] });
  }
  for (const [name, direction] of [['room', 'N'], ['market', 'S']]) {
    const { characters } = shown.rooms[name];
    may(characters.some(({ characterId }) => characterId === scene.friend), 'move', { characterId: scene.friend, direction },
      { as: 'bo', live: { roomChanged: null, marketChanged: null }, pages: ['rooms'] });
  }
  const slug = `category-${process.pid}-${Date.now()}-${(numbers += 1)}`;
  may(children.length < 8, 'createCategory', { name: `Category ${number()}`, slug, parentId: scene.category });
  for (const { id } of children) may(true, 'renameCategory', { id, name: `Category ${number()}` });
  for (const [place, { id }] of children.entries()) {
    const other = children[place ? 0 : children.length - 1].id;
    may(other !== id && random(2) === 0, 'moveCategory', { id, newParentId: other });
    may(random(2) === 0, 'deleteCategory', { id });
  }
  const { id, nonce } = shown.product.product;
  const properties = Array.from({ length: random(4) }, () => ({ name: pick(['color', 'label', 'size']), value: `${random(5)}` }));
  const categoryIds = [scene.shelf, scene.rack].filter(() => random(2));
  may(true, 'updateProduct', { id, nonce, properties, categoryIds, title: `Title ${random(5)}` });
  const sku = `made-${process.pid}-${(numbers += 1)}`;
  const goodsOf = rows(shown.shelves.shelf.products).filter((one) => one.sku.startsWith('made-'));
  const price = { amount: 1 + number(), currency: 'USD' };
  may(goodsOf.length < 6, 'createProduct',
    { sku, title: `Title ${number()}`, type: 'thing', categoryIds: [scene.shelf], pricing: { list: price, retail: price }, properties: [] });
  for (const { id: ofId, nonce: read } of goodsOf) may(random(2) === 0, 'deleteProduct', { id: ofId, nonce: read });
  for (const [ofId, { images }] of [[id, shown.product.product], [scene.shelf, shown.shelves.shelf]]) {
    may(images.length < 4, 'addImage', { ofId, alt: `Picture ${number()}`, file: null }, { file: 'file' });
    for (const { id: imageId } of images) may(true, 'removeImage', { ofId, imageId });
  }
  const nodes = [...rows(shown.folder.node.children), ...rows(shown.blog.node.children), ...rows(shown.gallery.node.children)];
  const page = `page-${process.pid}-${(numbers += 1)}`;
  may(nodes.length < 8, 'createPage', { parentId: scene.folder, slug: page, title: `Page ${number()}`, text: 'Hello' });
  may(nodes.length < 10, 'createSection', { parentId: scene.folder, slug: page, title: `Section ${number()}`, kind: pick(['FOLDER', 'GALLERY']) });
  const publishOn = pick([null, '2020-01-01T00:00:00Z']);
  may(nodes.length < 12, 'createBlogEntry', { blogId: scene.blog, slug: page, title: `Entry ${number()}`, text: 'Hello', publishOn, tags: [] });
  may(nodes.length < 12, 'uploadPhoto', { galleryId: scene.gallery, slug: page, title: `Photo ${number()}`, tags: [], file: null }, { file: 'file' });
  for (const { id: nodeId, nonce: read, revisions, url, discussion } of nodes) {
    may(revisions, 'editText', { id: nodeId, nonce: read, text: `Text ${number()}` });
    for (const revision of rows(revisions)) may(true, 'restoreRevision', { id: nodeId, nonce: read, revisionId: revision.id });
    may(url, 'replacePhoto', { id: nodeId, nonce: read, file: null }, { file: 'file' });
    may(!discussion, 'openDiscussion', { subjectId: nodeId, storage: pick(['DOCUMENTS', 'EMBEDDED', 'PAGES']) });
    may(true, 'editMetadata', { id: nodeId, nonce: read, title: `Page ${number()}` });
    may(random(2) === 0, 'deleteContent', { id: nodeId, nonce: read });
    may(true, pick(['addTags', 'removeTags']), { id: nodeId, tags: [pick(['news', 'old', 'rare'])] });
  }
  may(comments.length < 30, 'postComment', { discussionId: scene.discussion, text: `Comment ${number()}` });
  const foreign = `Foreign ${process.pid} ${(numbers += 1)}`;
  may(comments.length < 30, 'postComment', { discussionId: scene.discussion, text: foreign },
    { as: 'mara', live: { commented: (comment) => comment.text === foreign }, pages: ['discussion'] });
  for (const comment of comments.filter(({ author }) => author.userId === scene.owner)) {
    may(true, 'editComment', { id: comment.id, text: `Edited ${number()}` });
    may(true, 'deleteComment', { id: comment.id });
  }
  const { ads } = shown.zone.adZone;
  for (const { campaignId, adUnitId } of ads) {
    may(campaignId !== 'acme:spring', 'deactivateCampaign', { campaignId });
    may(true, 'recordAdEvent', { kind: 'CLICK', userId: 'browser', siteId: 'site', zoneId: 'top', campaignId, adUnitId });
  }
  may(true, 'serveAds', { siteId: 'site', zoneId: 'top', userId: 'browser', limit: 1 + random(3) });
  for (const { campaignId, adUnitId } of ads) {
    const creative = { campaignId, adUnitId, text: `Ad ${number()}`, link: 'https://acme.example/' };
    may(true, 'setAdCreative', random(2) ? creative : { ...creative, image: null }, { file: random(2) ? 'image' : undefined });
  }
  const campaign = `acme:${process.pid}-${(numbers += 1)}`;
  const ad = { campaignId: ads.length < 12 ? pick(['acme:spring', campaign]) : 'acme:spring', adUnitId: pick(['top', 'side', 'foot']), ecpm: random(500), dailyCap: 3, keywords: ['jazz'] };
  may(true, 'placeAd', { siteId: 'site', zoneId: 'top', ad });
  // First the mutation, so that one with many objects is not chosen more often.
  const kinds = [...new Set(found.map(([mutation, , { as }]) => `${mutation} ${as ?? ''}`))];
  const kind = pick(kinds);
  return pick(found.filter(([mutation, , { as }]) => `${mutation} ${as ?? ''}` === kind));
}
