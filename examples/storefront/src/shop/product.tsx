import { useState } from 'react';
import { useQuery } from 'urql';
import { Discussion } from '../blog/discussion';
import { useLive } from '../data/live';
import { ProductDocument, StockChangedDocument, StockDocument, type ProductCardFragment } from '../gql/graphql';
import { Cover, Picture } from '../ui/cover';
import { Failure, ForMembers, NotFound, Page, When } from '../ui/parts';
import { Link } from '../ui/router';
import { makersOf, Price, Stock } from './product-card';
import { useAddToCart } from './use-cart';

export function ProductPage({ slug }: { slug: string }) {
  const [state] = useQuery({ query: ProductDocument, variables: { slug } });
  const { add, failure, isBusy } = useAddToCart();
  const [added, setAdded] = useState(0);
  const product = state.data?.product;
  if (product === null) return <NotFound />;
  return (
    <Page title={product?.title} state={state}>
      {product ? (
        <>
          <article className="product">
            <div>
              <Cover image={product.images[0]} of={product.sku} isRound={product.__typename === 'AudioAlbum'} />
              {product.images.slice(1).map((image) => (
                <Picture key={image.id} {...image} />
              ))}
            </div>
            <div>
              <nav aria-label="Categories" className="chips">
                {product.categories.map(({ id, name, slug: category }) => (
                  <Link key={id} to={`/c/${category}`}>
                    {name}
                  </Link>
                ))}
              </nav>
              <h1>{product.title}</h1>
              <p className="makers">{makersOf(product)}</p>
              <Price pricing={product.pricing} />
              <LiveStock product={product} />
              <ForMembers to="to buy this">
                <button
                  type="button"
                  disabled={isBusy || product.stock.available === 0}
                  onClick={async () => {
                    if (await add(product.sku)) setAdded((before) => before + 1);
                  }}
                >
                  Add to cart
                </button>
                <p role="status">
                  {added > 0 ? (
                    <>
                      {added === 1 ? 'It is' : `${added} are`} in <Link to="/cart">your cart</Link>.
                    </>
                  ) : null}
                </p>
                <Failure message={failure} />
              </ForMembers>
              <p>{product.description}</p>
              <dl>
                {product.issueDate ? (
                  <div>
                    <dt>Released</dt>
                    <dd>
                      <When at={product.issueDate} />
                    </dd>
                  </div>
                ) : null}
                {product.properties.map(({ id, name, value }) => (
                  <div key={id}>
                    <dt>{name}</dt>
                    <dd>{value}</dd>
                  </div>
                ))}
              </dl>
              <Names title="Tracks" names={product.__typename === 'AudioAlbum' ? product.tracks : []} />
              <Names title="With" names={product.__typename === 'Film' ? product.actors : []} />
            </div>
          </article>
          <Discussion subjectId={product.id} discussionId={product.discussion?.id ?? null} />
        </>
      ) : null}
    </Page>
  );
}

/** The stock of a product, as others buy it. The store has one product, so the whole page follows. */
function LiveStock({ product: { id, sku, stock } }: { product: Pick<ProductCardFragment, 'id' | 'sku' | 'stock'> }) {
  const context = useLive(StockChangedDocument, { skus: [sku] });
  useQuery({ query: StockDocument, variables: { id }, requestPolicy: 'network-only', context });
  return <Stock available={stock.available} />;
}

function Names({ title, names }: { title: string; names: string[] }) {
  if (names.length === 0) return null;
  return (
    <section>
      <h2>{title}</h2>
      <ol>
        {names.map((name) => (
          <li key={name}>{name}</li>
        ))}
      </ol>
    </section>
  );
}
