import { useQuery } from 'urql';
import { EntryCard } from '../blog/entry-card';
import { HomeDocument } from '../gql/graphql';
import { Page } from '../ui/parts';
import { ProductCard } from './product-card';

export function HomePage() {
  const [state] = useQuery({ query: HomeDocument });
  const { products, content } = state.data ?? {};
  const entries = content?.__typename === 'Section' ? content.entries.nodes : [];
  return (
    <Page title="Home" state={state}>
      <h1>Just in</h1>
      <ul className="cards">
        {products?.nodes.map((product) => (
          <ProductCard key={product.id} product={product} />
        ))}
      </ul>
      <h2>From the blog</h2>
      {entries.map((entry) => (
        <EntryCard key={entry.id} entry={entry} heading="h3" />
      ))}
    </Page>
  );
}
