import { useState } from 'react';
import type { ProductListFragment } from '../gql/graphql';
import { More } from '../ui/parts';
import { Filters, type useChoices } from './filters';
import { ProductCard } from './product-card';

// The gateway counts up to 10,000 products by default, shared by up to five lists. Smaller figures are exact.
const SURE = 2_000;

interface Props {
  list: ProductListFragment;
  choices: ReturnType<typeof useChoices>;
  isBusy: boolean;
  onMore: (after: string | undefined) => void;
}

/** A list of products beside its filters. Both stay while another choice is being read. */
export function ProductList({ list, choices, isBusy, onMore }: Props) {
  // On a narrow screen, the filters are above the products, and closed until somebody wants them.
  const [isWide] = useState(() => matchMedia('(min-width: 50rem)').matches);
  const { facets, nodes, pageInfo } = list;
  const { counted } = facets;
  return (
    <div className="with-filters">
      <details className="filters-box" open={isWide}>
        <summary>Filters</summary>
        <Filters facets={facets} choices={choices} />
      </details>
      <section aria-label="Products" aria-busy={isBusy}>
        <p role="status" className="total">
          {counted}
          {counted < SURE ? '' : ' or more'} {counted === 1 ? 'product' : 'products'}
        </p>
        <ul className="cards">
          {nodes.map((product) => (
            <ProductCard key={product.id} product={product} />
          ))}
        </ul>
        <More hasMore={pageInfo.hasNextPage} isBusy={isBusy} onMore={() => onMore(pageInfo.endCursor ?? undefined)} />
      </section>
    </div>
  );
}
