// GraphiQL shows a thrown error with its stack, which says nothing to the reader.
export function failure(message) {
  return { errors: [{ message }] };
}
