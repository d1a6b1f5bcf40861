import { useState } from 'react';
import { useQuery } from 'urql';
import { OrdersPageDocument } from '../gql/graphql';
import { ForMembers, formatMoney, More, Page, When } from '../ui/parts';

export function OrdersPage() {
  const [after, setAfter] = useState<string>();
  const [state] = useQuery({ query: OrdersPageDocument, variables: { after }, requestPolicy: 'cache-and-network' });
  const orders = state.data?.viewer?.orders;
  return (
    <Page title="Orders" state={state}>
      <h1>Your orders</h1>
      <ForMembers to="to see your orders">
        {orders?.nodes.length === 0 ? <p>There are none yet.</p> : null}
        <ul className="orders">
          {orders?.nodes.map(({ id, placedAt, items, total, paymentReference }) => (
            <li key={id}>
              <h2>
                <When at={placedAt} withTime /> <span className="count">{formatMoney(total)}</span>
              </h2>
              <ul>
                {items.map(({ sku, title, quantity, lineTotal }) => (
                  <li key={sku}>
                    {quantity} of {title}, {formatMoney(lineTotal)}
                  </li>
                ))}
              </ul>
              <p className="hint">Payment {paymentReference}</p>
            </li>
          ))}
        </ul>
        {orders ? (
          <More
            hasMore={orders.pageInfo.hasNextPage}
            isBusy={state.fetching}
            onMore={() => setAfter(orders.pageInfo.endCursor ?? undefined)}
          />
        ) : null}
      </ForMembers>
    </Page>
  );
}
