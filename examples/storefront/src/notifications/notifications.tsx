// What others have done: a live list, and the number of what is not read.
import { useState } from 'react';
import { useQuery } from 'urql';
import { OVER_SOCKET } from '../data/client';
import { useLive } from '../data/live';
import { useSession } from '../data/session';
import { useWrite } from '../data/write';
import {
  MarkReadDocument,
  NotificationReceivedDocument,
  NotificationsDocument,
  UnreadDocument,
  type NotificationFragment,
  type NotificationReason,
} from '../gql/graphql';
import { addressOf } from '../shop/product-card';
import { Failure, ForMembers, More, Page, When } from '../ui/parts';
import { Link } from '../ui/router';

// What to say of a reason, by the name of who it was and what they gave, and where it leads. A schema can have more
// reasons.
const REASONS: Partial<Record<NotificationReason, [text: (name: string, gift: string) => string, to: string]>> = {
  COMMENT_REPLIED: [(name) => `${name} has replied to your comment`, '/blog'],
  CONTENT_COMMENTED: [(name) => `${name} has commented on your text`, '/blog'],
  POST_COMMENTED: [(name) => `${name} has commented on your post`, '/community'],
  POLL_VOTED: [(name) => `${name} has voted in your poll`, '/community'],
  FOLLOWED: [(name) => `${name} follows you`, '/community'],
  TRADE_OFFERED: [(name) => `${name} offers you a trade`, '/room'],
  TRADE_ACCEPTED: [(name) => `${name} has accepted your trade`, '/room'],
  GIFT_RECEIVED: [(name, gift) => `${name} has given you: ${gift}`, '/room'],
  ORDER_PLACED: [() => 'Your order is paid for', '/orders'],
  ORDER_SHIPPED: [() => 'Your order is on its way', '/orders'],
  ORDER_DELIVERED: [() => 'Your order has arrived', '/orders'],
  ORDER_CANCELLED: [() => 'Your order is cancelled', '/orders'],
};

/** Returns the page of what was commented on, if the page of a reason is not the right one. */
function pageOf({ node }: NotificationFragment): string | null {
  const subject = node?.__typename === 'Comment' ? node.discussion.subject : null;
  if (subject?.__typename === 'BlogEntry') return `/blog/${subject.entrySlug}`;
  return subject && 'sku' in subject ? addressOf(subject) : null;
}

/** A link to the notifications, with the number of the unread ones, which is live. */
export function NotificationsLink() {
  const [{ data }] = useQuery({ query: UnreadDocument, context: OVER_SOCKET });
  const count = data?.viewer?.unreadNotificationCount ?? 0;
  // 100 stands for as many or more.
  const shown = count < 100 ? count : `${count}+`;
  return (
    <Link to="/notifications" aria-label={`Notifications, ${shown} unread`}>
      Notifications <span className="count">{shown}</span>
    </Link>
  );
}

export function NotificationsPage() {
  const { member } = useSession();
  const [after, setAfter] = useState<string>();
  const context = useLive(NotificationReceivedDocument, member === null ? null : {});
  const [state] = useQuery({ query: NotificationsDocument, variables: { after }, requestPolicy: 'cache-and-network', context });
  const { write, failure, isBusy } = useWrite(MarkReadDocument);
  const list = state.data?.viewer?.notifications;
  const latest = list?.nodes[0];
  return (
    <Page title="Notifications" state={state}>
      <h1>Notifications</h1>
      <ForMembers to="to see your notifications">
        {latest ? (
          <button type="button" disabled={isBusy} onClick={() => write({ which: { through: latest.id } })}>
            Mark all as read
          </button>
        ) : (
          <p>There are none yet.</p>
        )}
        <Failure message={failure} />
        <ul className="notifications" aria-live="polite">
          {list?.nodes.map((one) => (
            <Notification key={one.id} notification={one} />
          ))}
        </ul>
        {list ? (
          <More
            hasMore={list.pageInfo.hasNextPage}
            isBusy={state.fetching}
            onMore={() => setAfter(list.pageInfo.endCursor ?? undefined)}
          />
        ) : null}
      </ForMembers>
    </Page>
  );
}

function Notification({ notification }: { notification: NotificationFragment }) {
  const { reason, createdAt, readAt, actor, node } = notification;
  // Players know each other's characters only.
  const gift = node?.__typename === 'Gift' ? node : null;
  const [textOf, to] = REASONS[reason] ?? [() => 'Something has happened', '/'];
  return (
    <li className={readAt ? undefined : 'unread'}>
      {readAt ? null : <span className="unseen">New: </span>}
      <Link to={pageOf(notification) ?? to}>{textOf(gift?.giver.name ?? actor?.displayName ?? 'Somebody', gift?.description ?? 'something')}</Link>{' '}
      <span className="hint">
        <When at={createdAt} withTime />
      </span>
    </li>
  );
}
