"""Compiles a valid operation to its plan."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLAbstractType,
    GraphQLField,
    GraphQLInterfaceType,
    GraphQLList,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLOutputType,
    GraphQLSchema,
    GraphQLUnionType,
    InlineFragmentNode,
    OperationDefinitionNode,
    SelectionNode,
    VariableNode,
    is_leaf_type,
)
from graphql.execution.execute import default_field_resolver, default_type_resolver
from strawberry.schema.schema_converter import GraphQLCoreConverter

from portico.schema.fields import Computed, Related, Stored, declaration_of, getter
from portico.schema.installation import ERRORS, MEMBERS, RELATED_KIND, TYPE_NAME
from portico.schema.kinds import Kind, types_of
from portico.schema.nodes import loader_of
from portico.schema.selections import Selection
from portico.schema.service import SERVICE

from .arguments import compile_arguments
from .flat import compile_related
from .fresh import mark_fresh
from .plan import (
    Abstract,
    Completers,
    FieldPlan,
    Leaf,
    ListOf,
    NonNull,
    NotCompiled,
    Object,
    ObjectPlan,
    Plan,
    Relation,
    Shape,
    named_shape,
)
from .resolvers import direct_resolver, own_value

_BACKREF = GraphQLCoreConverter.DEFINITION_BACKREF
_INTROSPECTION = {"__schema", "__type", SERVICE}
# The key of the shape of a field whose values are leaves. All plans share it.
_LEAVES = "portico shape of leaves"


def conditions_of(document: DocumentNode, definition: OperationDefinitionNode) -> tuple[str, ...]:
    """Returns the variables in the `@include` and `@skip` of one operation. A plan is for some values of these.

    Another operation of the document may use variables of the same names in another way.
    """
    fragments, names, spread = _fragments(document), set[str](), set[str]()
    left = [definition.selection_set]
    while left:
        for selection in left.pop().selections:
            names.update(_conditions(selection))
            if isinstance(selection, FragmentSpreadNode):
                if selection.name.value not in spread:
                    spread.add(selection.name.value)
                    left.append(fragments[selection.name.value].selection_set)
            elif isinstance(selection, FieldNode | InlineFragmentNode) and selection.selection_set is not None:
                left.append(selection.selection_set)
    return tuple(sorted(names))


def _conditions(selection: SelectionNode) -> Iterator[str]:
    for directive in selection.directives or ():
        if directive.name.value in {"include", "skip"}:
            for argument in directive.arguments or ():
                if isinstance(argument.value, VariableNode):
                    yield argument.value.name.value


def _fragments(document: DocumentNode) -> dict[str, FragmentDefinitionNode]:
    return {node.name.value: node for node in document.definitions if isinstance(node, FragmentDefinitionNode)}


def compile_operation(
    schema: GraphQLSchema, document: DocumentNode, definition: OperationDefinitionNode, conditions: Mapping[str, Any]
) -> Plan:
    """Compiles a valid operation to a plan for these values of its conditions. Raises NotCompiled."""
    fragments = _fragments(document)
    if any(fragment.variable_definitions for fragment in fragments.values()):
        raise NotCompiled("fragment variables")
    root_type = schema.get_root_type(definition.operation)
    if root_type is None:
        raise NotCompiled(definition.operation.value)
    selection = Selection(schema, fragments, conditions, [definition.selection_set])
    root = _Compiler(schema).object_plan(root_type, selection)
    mark_fresh(root)
    return Plan(schema, definition, fragments, root)


class _Compiler:
    def __init__(self, schema: GraphQLSchema) -> None:
        self._schema = schema
        # Types that share a relation field share the function that completes its documents, and its keys are one group.
        self._completers: dict[Hashable, Completers | None] = {}
        self._relations: dict[Hashable, Relation] = {}

    def object_plan(self, object_type: GraphQLObjectType, selection: Selection) -> ObjectPlan:
        responses = selection.responses(object_type)
        fields = [
            self._field(object_type, definition, name, nodes, selection)
            for name, nodes in responses.items()
            # Unknown fields are left out, as graphql-core does for a document that was not validated.
            if (definition := self._schema.get_field(object_type, nodes[0].name.value)) is not None
        ]
        return ObjectPlan(object_type, fields, [field for field in fields if not field.is_flat])

    def _field(
        self,
        parent: GraphQLObjectType,
        definition: GraphQLField,
        response_name: str,
        nodes: list[FieldNode],
        selection: Selection,
    ) -> FieldPlan:
        name = nodes[0].name.value
        below = selection.below(nodes)
        if name in _INTROSPECTION:
            raise NotCompiled(name)
        plan = FieldPlan(
            response_name=response_name,
            name=name,
            nodes=nodes,
            parent=parent,
            definition=definition,
            is_nullable=not isinstance(definition.type, GraphQLNonNull),
            shape=self._shape_of(definition, below),
            selection=below,
            arguments=compile_arguments(definition, nodes[0]),
        )
        if name == "__typename":
            plan.read = _constant(parent.name)
            return plan
        strawberry_field = definition.extensions.get(_BACKREF)
        match None if strawberry_field is None else declaration_of(strawberry_field):
            case Stored(path=path, default=default):
                plan.path, plan.default, plan.read = path, default, getter(path, default)
            case Computed(function=function, needs=needs, names=names, kind=kind):
                plan.read, plan.names = function, names
                plan.id_of = None if kind is None else (kind, needs[0])
            case Related() as declared:
                plan.relation = self._shared_relation(plan, declared, selection)
            case _:
                plan.own = None if ERRORS in definition.extensions else own_value(strawberry_field)
                direct = direct_resolver(self._schema, definition, strawberry_field)
                plan.resolve = direct or definition.resolve or default_field_resolver
        return plan

    def _shared_relation(self, plan: FieldPlan, declared: Related, selection: Selection) -> Relation:
        """Returns the relation of a field, which is the same for all types that have the field."""
        # A relation has no arguments, so all aliases of the field share one read.
        same = selection.fields(plan.parent)[plan.name]
        key = declared, tuple(map(id, plan.nodes)), tuple(map(id, same))
        if key not in self._relations:
            kind, wanted = plan.definition.extensions[RELATED_KIND], selection.below(same)
            self._relations[key] = self._relation(plan.nodes, declared, kind, wanted, plan.shape)
        return self._relations[key]

    def _shape_of(self, definition: GraphQLField, below: Selection) -> Shape:
        known: Shape | None = definition.extensions.get(_LEAVES)
        if known is not None:
            return known
        shape = self._shape(definition.type, below)
        if isinstance(named_shape(shape), Leaf):
            definition.extensions[_LEAVES] = shape
        return shape

    def _shape(self, output: GraphQLOutputType, below: Selection) -> Shape:
        if isinstance(output, GraphQLNonNull):
            return NonNull(self._shape(output.of_type, below))
        if isinstance(output, GraphQLList):
            return ListOf(self._shape(output.of_type, below), not isinstance(output.of_type, GraphQLNonNull))
        if is_leaf_type(output):
            return Leaf(output)
        if isinstance(output, GraphQLObjectType):
            return Object(self.object_plan(output, below))
        assert isinstance(output, GraphQLInterfaceType | GraphQLUnionType)
        return self._abstract(output, below)

    def _abstract(self, output: GraphQLAbstractType, below: Selection) -> Abstract:
        return Abstract(
            output,
            output.resolve_type or default_type_resolver,
            output.extensions.get(TYPE_NAME),
            output.extensions.get(MEMBERS, {}),
            lambda object_type: self.object_plan(object_type, below),
        )

    def _relation(
        self, nodes: Sequence[FieldNode], declared: Related, kind: Kind, wanted: Selection, shape: Shape
    ) -> Relation:
        projection = wanted.projection(types_of(self._schema, kind), kind.discriminator)
        return Relation(
            kind=kind.name,
            path=declared.path,
            many=declared.many,
            is_own="." not in declared.path,
            projection=projection,
            keys_of=getter(declared.path, () if declared.many else None),
            is_checked=not (declared.discloses or kind.is_open),
            loader=loader_of(kind, projection, discloses=declared.discloses),
            completers=self._completers_of(nodes, shape, kind),
        )

    def _completers_of(self, nodes: Sequence[FieldNode], shape: Shape, kind: Kind) -> Completers | None:
        key = tuple(map(id, nodes))
        if key not in self._completers:
            self._completers[key] = compile_related(shape, kind, self._schema)
        return self._completers[key]


def _constant(value: Any) -> Callable[[Any], Any]:
    return lambda _source: value
