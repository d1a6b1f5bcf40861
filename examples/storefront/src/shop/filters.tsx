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

/** Something to choose. Its `filter` is the part of a `ProductFilter` that chooses it. */
type Choice = Pick<FacetValueFragment, 'filter' | 'isSelected'>;

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

  /** Chooses what the list can be filtered by, or takes it back. */
  function toggle({ filter: part, isSelected }: Choice) {
    change((chosen) => {
      for (const [name, value] of Object.entries(part as Record<string, unknown>)) {
        if (!Array.isArray(value)) {
          if (isSelected) chosen.delete(name);
          else chosen.set(name, String(value));
          continue;
        }
        for (const one of value) {
          if (isSelected) chosen.delete(name, String(one));
          else chosen.append(name, String(one));
        }
      }
    });
  }

  const all = text ? `${path}?q=${encodeURIComponent(text)}` : path;
  return { filter, sort, text, all, inStock: search.has('inStock'), change, toggle };
}

type Choices = ReturnType<typeof useChoices>;

export function Filters({ facets, choices }: { facets: ProductListFragment['facets']; choices: Choices }) {
  const { inStock, sort, text, all, change, toggle } = choices;
  const bands = facets.prices.filter(({ isSelected }) => isSelected);
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
        <input type="checkbox" checked={inStock} onChange={() => toggle({ filter: { inStock }, isSelected: inStock })} /> In
        stock
      </label>
      <Facet title="Genre" values={facets.genres} onToggle={toggle} />
      <Facet title="Kind" values={facets.types} onToggle={toggle} />
      <fieldset>
        <legend>Price</legend>
        <label>
          <input type="radio" name="price" checked={bands.length === 0} onChange={() => bands.forEach(toggle)} /> Any
        </label>
        {facets.prices.map((band) => (
          <label key={band.min}>
            <input type="radio" name="price" checked={band.isSelected} onChange={() => toggle(band)} /> {bandName(band)}{' '}
            <span className="count">{band.count}</span>
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
  onToggle: (choice: Choice) => void;
}

function Facet({ title, values, onToggle }: FacetProps) {
  if (values.length < 2 && !values.some(({ isSelected }) => isSelected)) return null;
  return (
    <fieldset>
      <legend>{title}</legend>
      {values.map((value) => (
        <label key={value.name}>
          <input type="checkbox" checked={value.isSelected} onChange={() => onToggle(value)} /> {value.name}{' '}
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
