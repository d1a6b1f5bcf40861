// Chooses a random write that fits what the pages show.
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
  const found = [];
  const may = (condition, name, input) => condition && found.push([name, input]);

  may(!cart, 'createCart', {});
  may(cart, 'addItemToCart', cart && { cartId: cart.id, sku: pick([scene.sku, scene.otherSku]), quantity: 1 + random(3) });
  for (const line of lines) {
    may(true, 'updateCartItem', { cartId: cart.id, sku: line.sku, oldQuantity: line.quantity, newQuantity: random(4) });
  }
  may(lines.length && random(3) === 0, 'checkout', cart && { cartId: cart.id, payment: { accountId: scene.account }, idempotencyKey: key() });
  may(true, 'transfer', { sourceId: scene.account, destinationId: scene.savings, amount: { amount: 1 + number() }, idempotencyKey: key() });
  for (const { direction } of here.exits) may(true, 'move', { characterId: hero.id, direction });
  for (const { id } of here.inventory) may(true, 'pickUp', { characterId: hero.id, itemId: id });
  for (const { id } of hero.inventory) {
    may(true, 'drop', { characterId: hero.id, itemId: id });
    may(here.locationId === scene.room, 'sell', { characterId: hero.id, itemId: id, shopkeeperId: scene.keeper });
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
  const other = pick(scene.others);
  const circle = pick(['friends', 'family']);
  may(true, pick(['addToCircle', 'removeFromCircle']), { userId: other, circle });
  may(true, pick(['block', 'unblock']), { userId: other });
  may(posts.length < 10, 'createPost', { detail: { status: { text: `Post ${number()}` } } });
  for (const post of posts) {
    may(true, 'commentOnPost', { postId: post.id, text: `Comment ${number()}` });
    may(random(3) === 0, 'deletePost', { postId: post.id });
    for (const { id } of rows(post.comments)) may(true, 'deletePostComment', { postId: post.id, commentId: id });
  }
  const slug = `category-${process.pid}-${Date.now()}-${(numbers += 1)}`;
  may(children.length < 8, 'createCategory', { name: `Category ${number()}`, slug, parentId: scene.category });
  for (const { id } of children) may(true, 'renameCategory', { id, name: `Category ${number()}` });
  const { id, nonce } = shown.product.product;
  const properties = Array.from({ length: random(4) }, () => ({ name: pick(['color', 'label', 'size']), value: `${random(5)}` }));
  may(true, 'updateProduct', { id, nonce, properties, title: `Title ${random(5)}` });
  may(comments.length < 30, 'postComment', { discussionId: scene.discussion, text: `Comment ${number()}` });
  for (const comment of comments) {
    may(true, 'editComment', { id: comment.id, text: `Edited ${number()}` });
    may(true, 'deleteComment', { id: comment.id });
  }
  const ad = { campaignId: 'acme:spring', adUnitId: pick(['top', 'side', 'foot']), ecpm: random(500), dailyCap: 3, keywords: ['jazz'] };
  may(true, 'placeAd', { siteId: 'site', zoneId: 'top', ad });
  // First the mutation, so that one with many objects is not chosen more often.
  const name = pick([...new Set(found.map(([mutation]) => mutation))]);
  return pick(found.filter(([mutation]) => mutation === name));
}
