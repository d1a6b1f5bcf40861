// Small parts that all pages share.
import { useId, type ReactNode } from 'react';
import type { CombinedError } from 'urql';
import { useSession } from '../data/session';
import type { MoneyFragment } from '../gql/graphql';
import { Link, useTitle } from './router';

const dates = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' });
const times = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });

/** Amounts are whole numbers of the currency's minor unit. */
export function formatMoney({ amount, currency }: Pick<MoneyFragment, 'amount' | 'currency'>): string {
  const format = new Intl.NumberFormat(undefined, { style: 'currency', currency });
  return format.format(amount / 10 ** (format.resolvedOptions().maximumFractionDigits ?? 2));
}

export function When({ at, withTime = false }: { at: string; withTime?: boolean }) {
  return <time dateTime={at}>{(withTime ? times : dates).format(new Date(at))}</time>;
}

/** What a failed write says. It is announced by screen readers, because the user waits for it. */
export function Failure({ message }: { message: string | null | undefined }) {
  return <div role="alert">{message ? <p className="failure">{message}</p> : null}</div>;
}

/** A page with its title, or what is instead of it: the beginning of a read, a failure, or nothing at this address. */
export function Page({ title, state, children }: { title: string | undefined; state: State; children: ReactNode }) {
  const { data, error, fetching } = state;
  useTitle(title);
  if (data) return <main id="content">{children}</main>;
  return (
    <main id="content">
      {error ? <Failure message={`This page cannot be shown. ${error.message}`} /> : null}
      {fetching ? <p role="status">Loading…</p> : null}
    </main>
  );
}

type State = { data?: unknown; error?: CombinedError | undefined; fetching: boolean };

export function NotFound() {
  useTitle('Not found');
  return (
    <main id="content">
      <h1>Not found</h1>
      <p>
        There is nothing at this address. <Link to="/">Back to the shop</Link>
      </p>
    </main>
  );
}

export function More({ hasMore, isBusy, onMore }: { hasMore: boolean; isBusy: boolean; onMore: () => void }) {
  return hasMore ? (
    <button className="more" type="button" onClick={onMore} disabled={isBusy}>
      Show more
    </button>
  ) : null;
}

/** Its content for members, and a way to become one for visitors. */
export function ForMembers({ to, children }: { to: string; children: ReactNode }) {
  const { member } = useSession();
  return member ? (
    children
  ) : (
    <p className="hint">
      <Link to="/sign-in">Sign in</Link> {to}.
    </p>
  );
}

/** A form with one text. `onSend` resolves to true if the text was accepted. */
export function TextForm({ label, button, onSend, isBusy, failure }: TextFormProps) {
  const id = useId();
  const send = async (form: HTMLFormElement) => {
    const text = String(new FormData(form).get('text')).trim();
    if (text && (await onSend(text))) form.reset();
  };
  return (
    <form
      className="text-form"
      onSubmit={(event) => {
        event.preventDefault();
        void send(event.currentTarget);
      }}
    >
      <label htmlFor={id}>{label}</label>
      <textarea id={id} name="text" rows={3} required />
      <button disabled={isBusy}>{button}</button>
      <Failure message={failure} />
    </form>
  );
}

interface TextFormProps {
  label: string;
  button: string;
  onSend: (text: string) => Promise<boolean>;
  isBusy: boolean;
  failure: string | null;
}
