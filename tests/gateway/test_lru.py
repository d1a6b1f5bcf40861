"""What a process keeps: the values that were used last, within a bound."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from portico.resolvers.lru import Lru

USES = st.lists(st.tuples(st.sampled_from(["get", "put"]), st.integers(0, 7), st.integers(0, 9)))


@given(uses=USES, most=st.integers(1, 4), most_size=st.integers(1, 20))
def test_the_values_used_last_are_kept_within_both_bounds(
    uses: list[tuple[str, int, int]], most: int, most_size: int
) -> None:
    kept: Lru[int, int] = Lru(most, most_size=most_size, size_of=lambda _key, value: value)
    # The model: keys and values, the one used last at the end.
    model: list[tuple[int, int]] = []
    for use, key, value in uses:
        before = dict(model).get(key)
        if use == "get":
            assert kept.get(key) == before
        else:
            kept.put(key, value)
            before = value
        if before is not None:
            model = [*((other, size) for other, size in model if other != key), (key, before)]
        while len(model) > 1 and (len(model) > most or sum(size for _, size in model) > most_size):
            del model[0]

        assert [(one, dict(model)[one]) for one in kept] == model
        assert len(kept) == len(model)


def test_a_value_can_be_none_and_everything_can_be_forgotten() -> None:
    kept: Lru[str, None] = Lru(2)
    kept.put("a", None)

    assert "a" in kept
    assert kept.get("a") is None
    kept.clear()
    assert "a" not in kept
