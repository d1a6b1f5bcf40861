// Relay's store. `compiled` makes of a document what Relay's compiler makes of it, without fragments.
import { getNamedType, isAbstractType, Kind, print } from 'graphql';
import relay from 'relay-runtime';

const { Environment, Network, RecordSource, Store, Observable, createOperationDescriptor } = relay;

const literal = (node) => {
  switch (node.kind) {
    case Kind.INT:
    case Kind.FLOAT:
      return Number(node.value);
    case Kind.OBJECT:
      return Object.fromEntries(node.fields.map(({ name, value }) => [name.value, literal(value)]));
    case Kind.LIST:
      return node.values.map(literal);
    case Kind.NULL:
      return null;
    default:
      return node.value;
  }
};

const argument = ({ name, value }) =>
  value.kind === Kind.VARIABLE
    ? { kind: 'Variable', name: name.value, variableName: value.name.value }
    : { kind: 'Literal', name: name.value, value: literal(value) };

function compiled(operation, schema) {
  const { document } = operation;
  const [main] = document.definitions;
  const fragments = new Map(document.definitions.slice(1).map((one) => [one.name.value, one]));
  const flat = (set, type) =>
    set.selections.flatMap((node) => {
      if (node.kind === Kind.FIELD) return [field(node, type)];
      const { selectionSet, typeCondition } =
        node.kind === Kind.FRAGMENT_SPREAD ? fragments.get(node.name.value) : node;
      const condition = schema.getType(typeCondition.name.value);
      const inner = flat(selectionSet, condition);
      const isSame = condition === type || (isAbstractType(condition) && schema.isSubType(condition, type));
      if (isSame) return inner;
      if (!isAbstractType(condition)) return [{ kind: 'InlineFragment', selections: inner, type: condition.name, abstractKey: null }];
      // The other types of the union are those that implement the interface.
      return schema.getPossibleTypes(type).filter((one) => schema.isSubType(condition, one)).map((one) => (
        { kind: 'InlineFragment', selections: inner, type: one.name, abstractKey: null }));
    });
  const field = (node, parent) => {
    const name = node.name.value;
    const args = node.arguments?.length ? node.arguments.map(argument).sort((a, b) => (a.name < b.name ? -1 : 1)) : null;
    const base = { alias: node.alias?.value ?? null, args, name, storageKey: null };
    if (name === '__typename') return { ...base, kind: 'ScalarField' };
    const { type } = parent.getFields()[name];
    if (!node.selectionSet) return { ...base, kind: 'ScalarField' };
    const inner = getNamedType(type);
    return {
      ...base,
      kind: 'LinkedField',
      concreteType: isAbstractType(inner) ? null : inner.name,
      plural: String(type).includes('['),
      selections: flat(node.selectionSet, inner),
    };
  };
  const type = schema.getRootType(operation.kind);
  const argumentDefinitions = (main.variableDefinitions ?? []).map(({ variable }) => (
    { defaultValue: null, kind: 'LocalArgument', name: variable.name.value }));
  const shared = { argumentDefinitions, name: main.name.value, selections: flat(main.selectionSet, type) };
  return {
    kind: 'Request',
    fragment: { ...shared, kind: 'Fragment', metadata: null, type: type.name, abstractKey: null },
    operation: { ...shared, kind: 'Operation' },
    params: { cacheID: shared.name, id: null, metadata: {}, name: shared.name, text: print(document), operationKind: operation.kind },
  };
}

export function relayStore({ schema }) {
  let answer;
  const canned = () => Observable.from(Promise.resolve(structuredClone(answer)));
  const network = Network.create(canned, canned);
  const environment = new Environment({ network, store: new Store(new RecordSource()), log: () => {} });
  const requests = new Map();
  const descriptor = (operation, variables) => {
    if (!requests.has(operation.document)) requests.set(operation.document, compiled(operation, schema));
    return createOperationDescriptor(requests.get(operation.document), variables);
  };
  const retained = new Set();
  return {
    name: 'relay',
    async take(operation, variables, result) {
      answer = result;
      const wanted = descriptor(operation, variables);
      if (operation.kind === 'query' && !retained.has(operation.document)) {
        retained.add(operation.document);
        environment.retain(wanted);
      }
      const send = { query: 'execute', mutation: 'executeMutation', subscription: 'executeSubscription' }[operation.kind];
      await environment[send]({ operation: wanted }).toPromise();
    },
    read(operation, variables) {
      const found = environment.lookup(descriptor(operation, variables).fragment);
      return found.isMissingData ? undefined : found.data;
    },
  };
}
