import { useState } from 'react';
import { useQuery } from 'urql';
import { SearchDocument } from '../gql/graphql';
import { Page } from '../ui/parts';
import { useChoices } from './filters';
import { ProductList } from './product-list';

export function SearchPage() {
  const choices = useChoices();
  const { filter, sort, text } = choices;
  const of = JSON.stringify([filter, sort]);
  const [page, setPage] = useState<{ of: string; after?: string | undefined }>({ of });
  const after = page.of === of ? page.after : undefined;
  const [state] = useQuery({ query: SearchDocument, variables: { filter, sort, after } });
  const title = text ? `“${text}”` : 'Everything';
  return (
    <Page title={title} state={state}>
      <h1>{title}</h1>
      {state.data?.products ? (
        <ProductList
          list={state.data.products}
          choices={choices}
          isBusy={state.fetching}
          onMore={(end) => setPage({ of, after: end })}
        />
      ) : null}
    </Page>
  );
}
