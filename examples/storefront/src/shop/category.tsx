import { useState } from 'react';
import { useQuery } from 'urql';
import { CategoryDocument } from '../gql/graphql';
import { Picture } from '../ui/cover';
import { NotFound, Page } from '../ui/parts';
import { Link } from '../ui/router';
import { useChoices } from './filters';
import { ProductList } from './product-list';

export function CategoryPage({ slug }: { slug: string }) {
  const choices = useChoices();
  const { filter, sort } = choices;
  const of = JSON.stringify([filter, sort]);
  // A cursor belongs to one filter and one order.
  const [page, setPage] = useState<{ of: string; after?: string | undefined }>({ of });
  const after = page.of === of ? page.after : undefined;
  const [state] = useQuery({ query: CategoryDocument, variables: { slug, filter, sort, after } });
  const category = state.data?.category;
  if (category === null) return <NotFound />;
  return (
    <Page title={category?.name} state={state}>
      {category ? (
        <>
          <nav aria-label="Breadcrumbs" className="breadcrumbs">
            <ol>
              {category.breadcrumbs.map(({ id, name, slug: above }) => (
                <li key={id}>
                  <Link to={`/c/${above}`}>{name}</Link>
                </li>
              ))}
            </ol>
          </nav>
          <div className="banner">
            {category.images.map((image) => (
              <Picture key={image.id} {...image} />
            ))}
            <div>
              <h1>{category.name}</h1>
              {category.description ? <p>{category.description}</p> : null}
            </div>
          </div>
          <nav aria-label="Categories" className="chips">
            {category.children.nodes.map(({ id, name, slug: below }) => (
              <Link key={id} to={`/c/${below}`}>
                {name}
              </Link>
            ))}
          </nav>
          <ProductList
            list={category.products}
            choices={choices}
            isBusy={state.fetching}
            onMore={(end) => setPage({ of, after: end })}
          />
        </>
      ) : null}
    </Page>
  );
}
