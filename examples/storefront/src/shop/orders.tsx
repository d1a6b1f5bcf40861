import { useState } from 'react';
import { useQuery } from 'urql';
import { useLive } from '../data/live';
import { useSession } from '../data/session';
import { useWrite } from '../data/write';
import {
  CancelOrderDocument,
  OrderChangedDocument,
  OrdersPageDocument,
  type OrderFragment,
  type OrderStatus,
} from '../gql/graphql';
import { Failure, ForMembers, formatMoney, More, Page, When } from '../ui/parts';

const STATUSES: Record<OrderStatus, string> = {
  PLACED: 'Placed',
  SHIPPED: 'On its way',
  DELIVERED: 'Delivered',
  CANCELLED: 'Cancelled',
};

export function OrdersPage() {
  const { member } = useSession();
  const [after, setAfter] = useState<string>();
  const context = useLive(OrderChangedDocument, member === null ? null : {});
  const [state] = useQuery({ query: OrdersPageDocument, variables: { after }, requestPolicy: 'cache-and-network', context });
  const orders = state.data?.viewer?.orders;
  return (
    <Page title="Orders" state={state}>
      <h1>Your orders</h1>
      <ForMembers to="to see your orders">
        {orders?.nodes.length === 0 ? <p>There are none yet.</p> : null}
        <ul className="orders">
          {orders?.nodes.map((order) => (
            <Order key={order.id} order={order} />
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

function Order({ order }: { order: OrderFragment }) {
  const { write, failure, isBusy } = useWrite(CancelOrderDocument);
  const { id, placedAt, items, total, status, history, address, trackingNumber, refundedAt } = order;
  return (
    <li>
      <h2>
        <When at={placedAt} withTime /> <span className="count">{formatMoney(total)}</span>
      </h2>
      <ol className="history" aria-label="Status" aria-live="polite">
        {history.map((change) => (
          <li key={change.id}>
            {STATUSES[change.status]}, <When at={change.at} withTime />
          </li>
        ))}
      </ol>
      <ul className="items">
        {items.map(({ sku, title, quantity, lineTotal }) => (
          <li key={sku}>
            {quantity} of {title}, {formatMoney(lineTotal)}
          </li>
        ))}
      </ul>
      {address ? <p className="hint">To {[address.name, address.line1, address.postalCode, address.city, address.country].join(', ')}</p> : null}
      {trackingNumber ? <p className="hint">Parcel {trackingNumber}</p> : null}
      {status === 'CANCELLED' ? <p className="hint">{refundedAt ? 'Your money is back.' : 'Your money is on its way back.'}</p> : null}
      {status === 'PLACED' ? (
        <button type="button" className="plain" disabled={isBusy} onClick={() => write({ orderId: id })}>
          Cancel<span className="unseen"> the order of {placedAt}</span>
        </button>
      ) : null}
      <Failure message={failure} />
    </li>
  );
}
