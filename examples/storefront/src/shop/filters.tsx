// The filters of a list. They are in the address, so that a filtered list can be linked, and "back" undoes a choice.
import type { FacetValueFragment, ProductFilter, ProductListFragment, ProductSort } from '../gql/graphql';
import { formatMoney } from '../ui/parts';
import { Link, useRouter } from '../ui/router';

const SORTS: Partial<Record<ProductSort, string>> = {
  NEWEST: 'Newest',
  PRICE_ASC: 'Cheapest',
  PRICE_DESC: 'Most expensive',
  DISCOUNT_DESC: 'Biggest discount',
  TITLE_ASC: 'Title',
};
// The fields of a `ProductFilter` that the address can have: those with several values, and those with a number.
const LISTS = ['genres', 'typeNames'] as const;
const NUMBERS = ['minPrice', 'maxPrice'] as const;
const IN_STOCK = { inStock: true };

/** The part of a `ProductFilter` that chooses something. */
type Part = FacetValueFragment['filter'];

const entriesOf = (part: Part): [string, string[]][] =>
  Object.entries(part as object).map(([name, value]) => [name, [value].flat().map(String)]);

/** Returns what the address selects, and functions that change it. */
export function useChoices() {
  const { path, search, go } = useRouter();
  const text = search.get('q');
  const filter: ProductFilter = {
    ...(text ? { search: text } : {}),
    ...(search.has('inStock') ? { inStock: true } : {}),
    ...Object.fromEntries(LISTS.filter((name) => search.has(name)).map((name) => [name, search.getAll(name)])),
    ...Object.fromEntries(NUMBERS.filter((name) => search.has(name)).map((name) => [name, Number(search.get(name))])),
  };
  const sort = (search.get('sort') ?? (text ? 'RELEVANCE' : 'NEWEST')) as ProductSort;

  function change(edit: (chosen: URLSearchParams) => void) {
    const chosen = new URLSearchParams(search);
    edit(chosen);
    go(chosen.size > 0 ? `${path}?${chosen}` : path, { replace: true });
  }

  // The address, and not the answer, says what is chosen. So a choice shows at once.
  const isChosen = (part: Part) =>
    entriesOf(part).every(([name, values]) => values.every((value) => search.getAll(name).includes(value)));

  /** Chooses one of several values, or takes it back. */
  const toggle = (part: Part) =>
    change((chosen) => {
      for (const [name, values] of entriesOf(part)) {
        for (const value of values) chosen[isChosen(part) ? 'delete' : 'append'](name, value);
      }
    });

  /** Chooses a range of prices in place of another; null for any price. */
  const choosePrices = (part: Part | null) =>
    change((chosen) => {
      for (const name of NUMBERS) chosen.delete(name);
      for (const [name, values] of entriesOf(part ?? {})) chosen.set(name, values.join());
    });

  const all = text ? `${path}?q=${encodeURIComponent(text)}` : path;
  return { filter, sort, text, all, change, isChosen, toggle, choosePrices };
}

type Choices = ReturnType<typeof useChoices>;

export function Filters({ facets, choices }: { facets: ProductListFragment['facets']; choices: Choices }) {
  const { filter, sort, text, all, change, isChosen, toggle, choosePrices } = choices;
  const hasPrice = NUMBERS.some((name) => filter[name] !== undefined);
  return (
    <form className="filters" aria-label="Filters">
      <label>
        Sort by{' '}
        <select value={sort} onChange={({ target }) => change((chosen) => chosen.set('sort', target.value))}>
          {text ? <option value="RELEVANCE">Best match</option> : null}
          {Object.entries(SORTS).map(([value, name]) => (
            <option key={value} value={value}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <label>
        <input type="checkbox" checked={isChosen(IN_STOCK)} onChange={() => toggle(IN_STOCK)} /> In stock
      </label>
      <Facet title="Genre" values={facets.genres} choices={choices} />
      <Facet title="Kind" values={facets.types} choices={choices} />
      <fieldset>
        <legend>Price</legend>
        <label>
          <input type="radio" name="price" checked={!hasPrice} onChange={() => choosePrices(null)} /> Any
        </label>
        {facets.prices.map((band) => (
          <label key={band.min}>
            <input type="radio" name="price" checked={isChosen(band.filter)} onChange={() => choosePrices(band.filter)} />{' '}
            {bandName(band)} <span className="count">{band.count}</span>
          </label>
        ))}
      </fieldset>
      <Link to={all}>Show all</Link>
    </form>
  );
}

interface FacetProps {
  title: string;
  values: FacetValueFragment[];
  choices: Choices;
}

function Facet({ title, values, choices: { isChosen, toggle } }: FacetProps) {
  if (values.length === 0) return null;
  return (
    <fieldset>
      <legend>{title}</legend>
      {values.map((value) => (
        <label key={value.name}>
          <input type="checkbox" checked={isChosen(value.filter)} onChange={() => toggle(value.filter)} /> {value.name}{' '}
          <span className="count">{value.count}</span>
        </label>
      ))}
    </fieldset>
  );
}

function bandName({ min, max }: { min: number; max: number | null }): string {
  const from = formatMoney({ amount: min, currency: 'USD' });
  return max === null ? `${from} and more` : `${from} to ${formatMoney({ amount: max, currency: 'USD' })}`;
}
