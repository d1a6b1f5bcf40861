// GraphiQL shows a thrown error with its stack trace, which does not help the user. So failures become GraphQL errors.
export function failure(message) {
  return { errors: [{ message }] };
}
