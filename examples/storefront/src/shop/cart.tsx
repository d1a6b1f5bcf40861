import { useState } from 'react';
import { useQuery } from 'urql';
import { useWrite } from '../data/write';
import {
  CartPageDocument,
  ChangeQuantityDocument,
  CheckoutDocument,
  type AddressInput,
  type CartFragment,
  type CartPageQuery,
} from '../gql/graphql';
import { Failure, ForMembers, formatMoney, Page } from '../ui/parts';
import { Link, useRouter } from '../ui/router';
import { addressOf } from './product-card';

export function CartPage() {
  const [state] = useQuery({ query: CartPageDocument, requestPolicy: 'cache-and-network' });
  const cart = state.data?.viewer?.cart;
  return (
    <Page title="Cart" state={state}>
      <h1>Your cart</h1>
      <ForMembers to="to see your cart">
        {cart && cart.items.length > 0 ? (
          <>
            <ul className="lines">
              {cart.items.map((line) => (
                <Line key={line.id} cartId={cart.id} line={line} />
              ))}
            </ul>
            <p className="sum">
              Total <strong>{formatMoney(cart.total)}</strong>
            </p>
            <Payment cart={cart} accounts={state.data?.viewer?.accounts ?? []} />
          </>
        ) : (
          <p>
            It is empty. <Link to="/">Find a record</Link>
          </p>
        )}
      </ForMembers>
    </Page>
  );
}

function Line({ cartId, line }: { cartId: string; line: CartFragment['items'][number] }) {
  const { write, failure } = useWrite(ChangeQuantityDocument);
  const { sku, title, quantity, lineTotal, product } = line;
  // What the user has pressed so far. A second press need not wait for the answer: the gateway puts both in order.
  const [wanted, setWanted] = useState<number | null>(null);
  const shown = wanted ?? quantity;

  async function change(newQuantity: number) {
    setWanted(newQuantity);
    await write({ cartId, sku, oldQuantity: shown, newQuantity });
    setWanted((latest) => (latest === newQuantity ? null : latest));
  }

  return (
    <li>
      <span className="title">{product ? <Link to={addressOf({ slug: product.slug, sku })}>{title}</Link> : title}</span>
      <span className="stepper" role="group" aria-label={`Quantity of ${title}`}>
        <button type="button" aria-label={`One ${title} less`} disabled={shown === 0} onClick={() => change(shown - 1)}>
          −
        </button>
        <output>{shown}</output>
        <button
          type="button"
          aria-label={`One ${title} more`}
          disabled={product?.stock.available === 0}
          onClick={() => change(shown + 1)}
        >
          +
        </button>
      </span>
      <span className="amount">{formatMoney(lineTotal)}</span>
      <Failure message={failure} />
    </li>
  );
}

type Accounts = NonNullable<NonNullable<CartPageQuery['viewer']>['accounts']>;

// The fields of an address, each with its name and what browsers fill it in by.
const ADDRESS: [keyof AddressInput, string, string][] = [
  ['name', 'Name', 'name'],
  ['line1', 'Street and number', 'address-line1'],
  ['postalCode', 'Postal code', 'postal-code'],
  ['city', 'City', 'address-level2'],
  ['country', 'Country, two letters', 'country'],
];

function Payment({ cart, accounts }: { cart: CartFragment; accounts: Accounts }) {
  const { write, failure, isBusy } = useWrite(CheckoutDocument);
  const { go } = useRouter();

  async function pay(given: FormData) {
    const text = (field: string) => String(given.get(field));
    const address = {
      name: text('name'),
      line1: text('line1'),
      postalCode: text('postalCode'),
      city: text('city'),
      country: text('country').toUpperCase(),
    };
    if (await write({ cartId: cart.id, payment: { accountId: text('account') }, address })) go('/orders');
  }

  if (accounts.length === 0) return <p>You have no account to pay from.</p>;
  return (
    <form
      className="payment"
      onSubmit={(event) => {
        event.preventDefault();
        void pay(new FormData(event.currentTarget));
      }}
    >
      <fieldset>
        <legend>Send to</legend>
        {ADDRESS.map(([name, label, autoComplete]) => (
          <label key={name}>
            {label} <input name={name} autoComplete={autoComplete} required />
          </label>
        ))}
      </fieldset>
      <fieldset>
        <legend>Pay from</legend>
        {accounts.map(({ id, name, balance }, number) => (
          <label key={id}>
            <input type="radio" name="account" value={id} defaultChecked={number === 0} /> {name}{' '}
            <span className="count">{formatMoney(balance)}</span>
          </label>
        ))}
      </fieldset>
      <button disabled={isBusy}>Pay {formatMoney(cart.total)}</button>
      <Failure message={failure} />
    </form>
  );
}
