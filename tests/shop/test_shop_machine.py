"""The shop compared with a model: carts, restocks, checkouts, expiry, crashes and job runs in any order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from portico.resolvers.shop.payments import PaymentMethods
from tests.shop.support.shop import Provider, assert_nothing_in_flight, new_cart, stock_up
from tests.support.harness import GatewayClient, assert_invariants
from tests.support.ids import key_in
from tests.support.interruptions import crashing
from tests.support.machines import Machine, examples, step_lists
from tests.support.selections import shortest

# The most crashes that may be unsettled at once: each doubles the number of possible states.
MAX_CRASHES = 3
SKUS = ("one", "two")
CARTS = 3
UNITS = 6
TOKENS = ("accept", "accept", "decline", "lost")


@dataclass(frozen=True)
class Call:
    """A mutation with the numbers of its cart and product, and its units. `old` is the quantity that the caller
    expects.
    """

    key: str
    mutation: str
    cart: int
    sku: int
    units: int
    old: int
    token: str


@dataclass(frozen=True)
class Cart:
    status: str = "ACTIVE"
    lines: tuple[int, ...] = (0,) * len(SKUS)

    def with_line(self, sku: int, units: int) -> Cart:
        return replace(self, lines=put(self.lines, sku, units))


@dataclass(frozen=True)
class State:
    """The counters of each product, the carts, and the keys of the calls that have had an effect."""

    available: tuple[int, ...] = (UNITS,) * len(SKUS)
    sold: tuple[int, ...] = (0,) * len(SKUS)
    carts: tuple[Cart, ...] = (Cart(),) * CARTS
    done: frozenset[str] = frozenset()

    def shown(self) -> State:
        """Return the state without the parts that a client cannot see."""
        return replace(self, done=frozenset())


@dataclass(frozen=True)
class Step:
    """The next action of the machine, as choices among the objects that exist by then."""

    action: str
    mutation: str
    cart: int
    sku: int
    units: int
    token: int
    stop: int


def put(values: tuple[Any, ...], at: int, value: Any) -> tuple[Any, ...]:
    return (*values[:at], value, *values[at + 1 :])


PAYLOADS = {
    "restock": "StockPayload",
    "addItemToCart": "CartPayload",
    "updateCartItem": "CartPayload",
    "checkout": "CheckoutPayload",
}
DONE = {*PAYLOADS.values(), "PaymentPending"}


def carried_out(state: State, call: Call) -> tuple[str, State]:
    """Return the answer to the call, and the state after it."""
    if call.key in state.done:
        return PAYLOADS[call.mutation], state
    done = replace(state, done=state.done | {call.key})
    if call.mutation == "restock":
        left = state.available[call.sku] + call.units
        if left < 0:
            return "InadequateInventory", state
        return "StockPayload", replace(done, available=put(state.available, call.sku, left))
    cart = state.carts[call.cart]
    if cart.status != "ACTIVE":
        return "CartInactive", state
    if call.mutation == "checkout":
        return paid(state, done, call)
    return changed(state, done, call)


def changed(state: State, done: State, call: Call) -> tuple[str, State]:
    cart = state.carts[call.cart]
    present = cart.lines[call.sku]
    if call.mutation == "updateCartItem" and present != call.old:
        return "Conflict", state
    wanted = call.units if call.mutation == "updateCartItem" else present + call.units
    if wanted == present:
        # The cart remembers the call, so that a repeated call has the same answer whatever has changed since.
        return "CartPayload", done
    left = state.available[call.sku] - (wanted - present)
    if left < 0:
        return "InadequateInventory", state
    carts = put(state.carts, call.cart, cart.with_line(call.sku, wanted))
    return "CartPayload", replace(done, carts=carts, available=put(state.available, call.sku, left))


def paid(state: State, done: State, call: Call) -> tuple[str, State]:
    cart = state.carts[call.cart]
    if not any(cart.lines):
        return "EmptyCart", state
    if call.token == "decline":
        return "PaymentDeclined", state
    sold = tuple(before + units for before, units in zip(state.sold, cart.lines, strict=True))
    after = replace(done, sold=sold, carts=put(state.carts, call.cart, replace(cart, status="COMPLETE")))
    return "PaymentPending" if call.token == "lost" else "CheckoutPayload", after


def expired(state: State) -> State:
    """Return the state after all active carts have expired."""
    available = list(state.available)
    for cart in state.carts:
        if cart.status == "ACTIVE":
            available = [left + units for left, units in zip(available, cart.lines, strict=True)]
    carts = tuple(replace(cart, status="EXPIRED") if cart.status == "ACTIVE" else cart for cart in state.carts)
    return replace(state, available=tuple(available), carts=carts)


@dataclass
class Shop(Machine):
    """A gateway and the states that it may be in."""

    job_seconds = 31
    provider: Provider
    possible: list[State] = field(default_factory=lambda: [State()])
    unsettled: int = 0
    cut_off: list[Call] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    # For each cart number, the number of the first call that can be about the current cart.
    born: dict[int, int] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    async def begin(self) -> None:
        for sku in SKUS:
            await stock_up(self.gateway, sku, UNITS)
        self.ids = [await new_cart(self.gateway) for _ in range(CARTS)]

    def next_call(self, step: Step) -> Call:
        present = self.possible[0].carts[step.cart].lines[step.sku]
        units = {"updateCartItem": step.units, "restock": step.units - 3 or 1}.get(step.mutation, max(1, step.units))
        # One call in four expects an arbitrary quantity.
        old = present if step.stop % 4 else step.units
        token = TOKENS[step.token]
        return Call(f"key-{next(self.numbers)}", step.mutation, step.cart, step.sku, units, old, token)

    async def ask(self, call: Call) -> Any:
        sku, cart = SKUS[call.sku], self.ids[call.cart]
        inputs: dict[str, dict[str, Any]] = {
            "restock": {"sku": sku, "quantity": call.units},
            "addItemToCart": {"cartId": cart, "sku": sku, "quantity": call.units},
            "updateCartItem": {"cartId": cart, "sku": sku, "oldQuantity": call.old, "newQuantity": call.units},
            "checkout": {"cartId": cart, "payment": {"token": call.token}},
        }
        given = {**inputs[call.mutation], "idempotencyKey": call.key}
        return await self.gateway.ask(shortest(call.mutation), {"input": given})

    async def typename_of(self, call: Call) -> str:
        return str((await self.ask(call)).data[call.mutation]["__typename"])

    async def call(self, step: Step) -> None:
        call = self.next_call(step)
        self.learn(call, await self.typename_of(call))

    def learn(self, call: Call, result: str) -> None:
        """Drop the states that contradict the answer.

        A refusal proves little while a crash is unsettled: units may be on their way back, or a cart may be locked.
        """
        outcomes = [carried_out(state, call) for state in self.possible]
        if not self.unsettled or result in DONE:
            self.possible = unique([state for answer, state in outcomes if answer == result])
        assert self.possible, (call, result)
        if result == "PaymentPending":
            self.unsettled += 1
            self.cut_off.append(call)

    async def crash(self, step: Step) -> None:
        if self.unsettled >= MAX_CRASHES:
            return
        call = self.next_call(step)
        with crashing(self.gateway, step.stop) as faulty:
            answer = await self.ask(call)
        if faulty.has_crashed:
            self.unsettled += 1
            self.cut_off.append(call)
            self.possible = unique([state for one in self.possible for state in (one, carried_out(one, call)[1])])
        else:
            self.learn(call, answer.data[call.mutation]["__typename"])

    async def repeat(self, step: Step) -> None:
        """Retry a crashed call with its key, once the key is free."""
        calls = [call for call in self.cut_off if self.is_in_place(call)]
        if not calls:
            return
        call = calls[step.units % len(calls)]
        self.clock.advance(seconds=31)
        if step.token % 2:
            await self.jobs()
        self.cut_off.remove(call)
        result = await self.typename_of(call)
        if call.token == "decline" and result == "PaymentDeclined":
            # It has no effect. It is final for the key, also if a job got it and the cart has expired since.
            return
        if call.token == "lost" and result == "CheckoutPayload":
            # The provider answers the second request for this charge.
            call = replace(call, token="accept")
        self.learn(call, result)

    def is_in_place(self, call: Call) -> bool:
        """Return whether the number of the cart still refers to the cart of this call."""
        return call.mutation == "restock" or int(call.key.rpartition("-")[2]) >= self.born.get(call.cart, 0)

    async def expire(self, _step: Step) -> None:
        await self.jobs()
        await self.gateway.run_jobs(hours=5)
        self.possible = unique([expired(state) for state in self.possible])
        await self.settle()

    async def new_cart(self, step: Step) -> None:
        """Replace a cart that cannot change any more with a new one."""
        await self.jobs()
        if self.possible[0].carts[step.cart].status == "ACTIVE":
            return
        self.ids[step.cart] = await new_cart(self.gateway)
        self.born[step.cart] = next(self.numbers)
        self.possible = [replace(state, carts=put(state.carts, step.cart, Cart())) for state in self.possible]

    async def settle(self) -> None:
        """Assert that the stored state is a possible one, and drop the others."""
        actual = await self.actual()
        self.possible = [state for state in self.possible if state.shown() == actual]
        assert self.possible, actual
        self.unsettled = 0
        await assert_nothing_in_flight(self.gateway.db)
        assert len(self.provider.taken) == await self.gateway.db["orders"].count_documents({})

    async def actual(self) -> State:
        db = self.gateway.db
        stocks = {stock["_id"]: stock async for stock in db["stock"].find({})}
        carts = {cart["_id"]: cart async for cart in db["carts"].find({})}
        shown = []
        for cart_id in self.ids:
            cart = carts[key_in("Cart", cart_id)]
            lines = {line["sku"]: line["quantity"] for line in cart["items"]}
            shown.append(Cart(cart["status"], tuple(lines.get(sku, 0) for sku in SKUS)))
        available, sold = (tuple(stocks[sku][name] for sku in SKUS) for name in ("available", "sold"))
        return State(available, sold, tuple(shown))


def unique(states: list[State]) -> list[State]:
    return list(dict.fromkeys(states))


STEPS = st.builds(
    Step,
    action=st.sampled_from(
        ["call", "call", "crash", "crash", "crash", "repeat", "jobs", "crash jobs", "expire", "new cart"]
    ),
    mutation=st.sampled_from(["restock", "addItemToCart", "addItemToCart", "updateCartItem", "checkout"]),
    cart=st.integers(0, CARTS - 1),
    sku=st.integers(0, len(SKUS) - 1),
    units=st.integers(0, 5),
    token=st.integers(0, len(TOKENS) - 1),
    stop=st.integers(1, 9),
)
# A call that has nothing to change crashes after its mark is stored. Its cart expires before it is repeated.
MARKED_WITHOUT_CHANGE = [
    Step(action, "updateCartItem", cart=0, sku=0, units=0, token=0, stop=2) for action in ("crash", "expire", "repeat")
]
# A checkout crashes when it has locked the cart. A job gets the refusal, and the cart expires before the repetition.
REFUSED_BEFORE_EXPIRY = [
    Step("call", "addItemToCart", cart=0, sku=0, units=2, token=0, stop=1),
    Step("crash", "checkout", cart=0, sku=0, units=0, token=TOKENS.index("decline"), stop=3),
    Step("expire", "restock", cart=0, sku=0, units=0, token=0, stop=1),
    Step("repeat", "checkout", cart=0, sku=0, units=0, token=0, stop=1),
]


@examples()
@given(steps=step_lists(STEPS))
@example(steps=MARKED_WITHOUT_CHANGE)
@example(steps=REFUSED_BEFORE_EXPIRY)
async def test_the_shop_matches_the_model_after_any_crashes(gateway: GatewayClient, steps: list[Step]) -> None:
    for collection in ("products", "stock", "carts", "orders", "operations"):
        await gateway.db[collection].delete_many({})
    provider = Provider()
    gateway.state.resources[PaymentMethods] = provider
    machine = Shop(gateway, gateway.clock, provider)
    await machine.begin()

    for step in steps:
        await machine.take(step)

    await machine.jobs()
    await assert_invariants(gateway)
