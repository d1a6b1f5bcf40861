export async function follow({ url, token, query, variables, onAnswer }) {
  // EventSource sends no headers. A ticket stands for the token.
  const answer = await fetch(`${url}/ticket`, { method: 'POST', headers: { Authorization: `Bearer ${token}` } });
  const { ticket } = await answer.json();
  const parameters = new URLSearchParams({ query, variables: JSON.stringify(variables), ticket });
  const source = new EventSource(`${url}?${parameters}`);
  source.addEventListener('next', ({ data }) => onAnswer(JSON.parse(data)));
  return source;
}
