import type { ProductCardFragment } from '../gql/graphql';
import { Cover } from '../ui/cover';
import { formatMoney } from '../ui/parts';
import { Link } from '../ui/router';

export const addressOf = ({ slug, sku }: { slug: string | null; sku: string }) => `/p/${encodeURIComponent(slug ?? sku)}`;

/** Who made the product, for the kinds of products that have somebody. */
export function makersOf(product: ProductCardFragment): string | null {
  if (product.__typename === 'AudioAlbum') return product.artist;
  return product.__typename === 'Film' ? product.directors.join(', ') : null;
}

export function Price({ pricing: { list, retail, pctSavings } }: Pick<ProductCardFragment, 'pricing'>) {
  return (
    <p className="price">
      {formatMoney(retail)}
      {pctSavings > 0 ? (
        <del>
          <span className="unseen">instead of </span>
          {formatMoney(list)}
        </del>
      ) : null}
    </p>
  );
}

export function Stock({ available }: { available: number }) {
  if (available === 0) return <p className="stock out">Sold out</p>;
  return <p className="stock">{available < 4 ? `Only ${available} left` : 'In stock'}</p>;
}

export function ProductCard({ product }: { product: ProductCardFragment }) {
  return (
    <li className="card">
      <Cover image={product.cover[0]} of={product.sku} isRound={product.__typename === 'AudioAlbum'} />
      <h2>
        <Link to={addressOf(product)}>{product.title}</Link>
      </h2>
      <p className="makers">{makersOf(product)}</p>
      <Price pricing={product.pricing} />
      <Stock available={product.stock.available} />
    </li>
  );
}
