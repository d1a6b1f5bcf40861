// The filters of a list. They are in the address, so that a filtered list can be linked, and "back" undoes a choice.
import type { ProductFilter, ProductListFragment, ProductSort } from '../gql/graphql';
import { formatMoney } from '../ui/parts';
import { useRouter } from '../ui/router';

const SORTS: Partial<Record<ProductSort, string>> = {
  NEWEST: 'Newest',
  PRICE_ASC: 'Cheapest',
  PRICE_DESC: 'Most expensive',
  DISCOUNT_DESC: 'Biggest discount',
  TITLE_ASC: 'Title',
};

/** Returns what the address selects, and a function that changes it. */
export function useChoices() {
  const { path, search, go } = useRouter();
  const text = search.get('q');
  const [min, max] = [search.get('min'), search.get('max')];
  const genres = search.getAll('genre');
  const filter: ProductFilter = {
    ...(text ? { search: text } : {}),
    ...(genres.length > 0 ? { genres } : {}),
    ...(min ? { minPrice: Number(min) } : {}),
    // A band ends before its maximum; the filter includes its own.
    ...(max ? { maxPrice: Number(max) - 1 } : {}),
    ...(search.has('stock') ? { inStock: true } : {}),
  };
  const sort = (search.get('sort') ?? (text ? 'RELEVANCE' : 'NEWEST')) as ProductSort;

  function choose(change: (chosen: URLSearchParams) => void) {
    const chosen = new URLSearchParams(search);
    change(chosen);
    go(chosen.size > 0 ? `${path}?${chosen}` : path, { replace: true });
  }
  return { filter, sort, text, genres, min, max, inStock: search.has('stock'), choose };
}

type Choices = ReturnType<typeof useChoices>;

export function Filters({ facets, choices }: { facets: ProductListFragment['facets']; choices: Choices }) {
  const { genres, min, max, inStock, sort, text, choose } = choices;
  // A genre that no product has any more stays, so that it can be unchosen.
  const missing = genres.filter((genre) => !facets.genres.some(({ value }) => value === genre));
  const shown = [...facets.genres, ...missing.map((value) => ({ value, count: 0 }))];

  const toggleGenre = (genre: string) =>
    choose((chosen) => (genres.includes(genre) ? chosen.delete('genre', genre) : chosen.append('genre', genre)));
  const choosePrices = (band: { min: number; max: number | null } | null) =>
    choose((chosen) => {
      chosen.delete('min');
      chosen.delete('max');
      if (band) chosen.set('min', String(band.min));
      if (band?.max) chosen.set('max', String(band.max));
    });

  return (
    <form className="filters" aria-label="Filters">
      <label>
        Sort by{' '}
        <select value={sort} onChange={({ target }) => choose((chosen) => chosen.set('sort', target.value))}>
          {text ? <option value="RELEVANCE">Best match</option> : null}
          {Object.entries(SORTS).map(([value, name]) => (
            <option key={value} value={value}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <label>
        <input
          type="checkbox"
          checked={inStock}
          onChange={() => choose((chosen) => (inStock ? chosen.delete('stock') : chosen.set('stock', '1')))}
        />{' '}
        In stock
      </label>
      {shown.length > 0 ? (
        <fieldset>
          <legend>Genre</legend>
          {shown.map(({ value, count }) => (
            <label key={value}>
              <input type="checkbox" checked={genres.includes(value)} onChange={() => toggleGenre(value)} /> {value}{' '}
              <span className="count">{count}</span>
            </label>
          ))}
        </fieldset>
      ) : null}
      <fieldset>
        <legend>Price</legend>
        <label>
          <input type="radio" name="price" checked={!min && !max} onChange={() => choosePrices(null)} /> Any
        </label>
        {facets.prices.map((band) => (
          <label key={band.min}>
            <input type="radio" name="price" checked={min === String(band.min)} onChange={() => choosePrices(band)} />{' '}
            {bandName(band)} <span className="count">{band.count}</span>
          </label>
        ))}
      </fieldset>
    </form>
  );
}

function bandName({ min, max }: { min: number; max: number | null }): string {
  const from = formatMoney({ amount: min, currency: 'USD' });
  return max === null ? `${from} and more` : `${from} to ${formatMoney({ amount: max, currency: 'USD' })}`;
}
