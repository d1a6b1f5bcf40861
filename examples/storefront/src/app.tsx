// The frame of all pages, and the page at each address.
import { useEffect, useRef } from 'react';
import { useQuery } from 'urql';
import { BlogPage } from './blog/blog';
import { EntryPage } from './blog/entry';
import { CommunityPage } from './community/community';
import { useSession } from './data/session';
import { NavigationDocument, ViewerDocument } from './gql/graphql';
import { NotificationsLink, NotificationsPage } from './notifications/notifications';
import { RoomPage } from './room/room';
import { CartPage } from './shop/cart';
import { CategoryPage } from './shop/category';
import { HomePage } from './shop/home';
import { OrdersPage } from './shop/orders';
import { ProductPage } from './shop/product';
import { SearchBox } from './shop/search-box';
import { SearchPage } from './shop/search';
import { SignInPage } from './sign-in';
import { NotFound } from './ui/parts';
import { Link, useRouter } from './ui/router';

const PLACES = [
  ['/blog', 'Blog'],
  ['/community', 'Community'],
  ['/room', 'Game'],
] as const;

function CurrentPage() {
  const { path } = useRouter();
  const [, first = '', second, ...others] = path.split('/');
  if (others.length > 0) return <NotFound />;
  if (second !== undefined) {
    if (first === 'c') return <CategoryPage slug={second} key={second} />;
    if (first === 'p') return <ProductPage slug={second} key={second} />;
    if (first === 'blog') return <EntryPage slug={second} key={second} />;
    return <NotFound />;
  }
  switch (first) {
    case '':
      return <HomePage />;
    case 'search':
      return <SearchPage />;
    case 'cart':
      return <CartPage />;
    case 'orders':
      return <OrdersPage />;
    case 'notifications':
      return <NotificationsPage />;
    case 'blog':
      return <BlogPage />;
    case 'community':
      return <CommunityPage />;
    case 'room':
      return <RoomPage />;
    case 'sign-in':
      return <SignInPage />;
    default:
      return <NotFound />;
  }
}

function Header() {
  const { member, signOut } = useSession();
  const [{ data }] = useQuery({ query: NavigationDocument });
  const [{ data: own }] = useQuery({ query: ViewerDocument, pause: member === null });
  const units = own?.viewer?.cart?.items.reduce((sum, { quantity }) => sum + quantity, 0) ?? 0;
  return (
    <header className="site">
      <Link to="/" className="brand">
        Portico Records
      </Link>
      <SearchBox />
      <nav aria-label="Shop">
        {data?.categories?.nodes.map(({ id, name, slug }) => (
          <Link key={id} to={`/c/${slug}`}>
            {name}
          </Link>
        ))}
        {PLACES.map(([to, name]) => (
          <Link key={to} to={to}>
            {name}
          </Link>
        ))}
      </nav>
      <nav aria-label="You" className="own">
        <Link to="/cart" aria-label={`Cart, ${units} ${units === 1 ? 'item' : 'items'}`}>
          Cart <span className="count">{units}</span>
        </Link>
        {member === null ? (
          <Link to="/sign-in">Sign in</Link>
        ) : (
          <>
            <Link to="/orders">Orders</Link>
            <NotificationsLink />
            <button type="button" className="plain" onClick={signOut}>
              Sign out {own?.viewer?.user?.name}
            </button>
          </>
        )}
      </nav>
    </header>
  );
}

export function App() {
  const { path } = useRouter();
  const isFirst = useRef(true);

  // Without a load of a document, nothing else tells users of screen readers that the page has changed.
  useEffect(() => {
    if (!isFirst.current) document.getElementById('page')?.focus();
    isFirst.current = false;
  }, [path]);

  return (
    <>
      <a className="skip" href="#content">
        Skip to the content
      </a>
      <Header />
      <div id="page" tabIndex={-1}>
        <CurrentPage />
      </div>
      <footer>
        An example of a frontend for <a href="/">Portico</a>.
      </footer>
    </>
  );
}
