"""Who sees prices: what an ad pays, all the ads of a zone, and why others were not chosen.

Choices and impressions are for everybody. What they show to a caller who does not see prices has none: the documents
lack `ecpm`, so that no path shows it, also not when a repeated call is answered. A field that shows prices is then an
error. The root fields look at the selection first, so that an operation that is refused counts nothing.
"""

from collections.abc import Iterable

from graphql import GraphQLError, GraphQLObjectType, GraphQLResolveInfo

from portico.resolvers.documents import Document
from portico.schema.context import Context, Info, core
from portico.schema.fields import Source
from portico.schema.roles import Role
from portico.schema.selections import cached, selection_of

from .advertisers import ADVERTISER

_REFUSED = "Prices, and why ads were not chosen, require the role ADVERTISER or SERVICE."


def sees_prices(context: Context) -> bool:
    """Returns whether the caller is an ADVERTISER, a SERVICE or an ADMIN."""
    return context.has_role(ADVERTISER) or context.has_role(Role.SERVICE)


def require_prices(context: Context) -> None:
    """Raises UNAUTHENTICATED for an anonymous caller, and FORBIDDEN for one who does not see prices."""
    context.require_caller()
    if not sees_prices(context):
        raise forbidden()


def forbidden() -> GraphQLError:
    return GraphQLError(_REFUSED, extensions={"code": "FORBIDDEN"})


def require_prices_if_selected(info: Info, type_name: str) -> None:
    """Raises as `require_prices` does if the field, of this type with `ads` and `rejected`, is asked for prices."""
    asked = core(info)
    if cached(asked, "prices", lambda: _selects_prices(asked, type_name)):
        require_prices(info.context)


def _selects_prices(asked: GraphQLResolveInfo[Context], type_name: str) -> bool:
    shown, ad = asked.schema.type_map[type_name], asked.schema.type_map["Ad"]
    assert isinstance(shown, GraphQLObjectType)
    assert isinstance(ad, GraphQLObjectType)
    selection = selection_of(asked)
    fields = selection.fields(shown)
    return "rejected" in fields or "ecpm" in selection.below(fields.get("ads", ())).fields(ad)


def shown_to(context: Context, ads: Iterable[Document]) -> list[Document]:
    """Returns the ads as the caller may see them: without prices, unless the caller sees them."""
    if sees_prices(context):
        return list(ads)
    return [{name: value for name, value in ad.items() if name != "ecpm"} for ad in ads]


def price_in(ad: Source) -> int:
    """Returns the price of an ad. Raises FORBIDDEN if the caller does not see it."""
    if "ecpm" not in ad:
        raise forbidden()
    price: int = ad["ecpm"]
    return price
