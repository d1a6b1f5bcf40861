// The viewer's cart: made with its first item.
import { useQuery } from 'urql';
import { useWrite } from '../data/write';
import { useSession } from '../data/session';
import { AddToCartDocument, CreateCartDocument, ViewerDocument } from '../gql/graphql';

export function useAddToCart() {
  const { member } = useSession();
  const [{ data }] = useQuery({ query: ViewerDocument, pause: member === null });
  const creation = useWrite(CreateCartDocument);
  const addition = useWrite(AddToCartDocument);

  /** Adds one unit. Resolves to whether it is in the cart. */
  async function add(sku: string): Promise<boolean> {
    const cart = data?.viewer?.cart ?? (await creation.write({}))?.cart;
    return cart !== undefined && (await addition.write({ cartId: cart.id, sku, quantity: 1 })) !== null;
  }

  return { add, failure: creation.failure ?? addition.failure, isBusy: creation.isBusy || addition.isBusy };
}
